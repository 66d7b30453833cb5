// A JSON value that is dropped without memory: the library's own destructor needs some, and ends the process if there
// is none. What strangers send is kept in these.
#pragma once

#include <nlohmann/json.hpp>
#include <utility>

namespace reprofuse {

// From the inside out; as deep as a parser lets values be nested.
template <typename Json>
void take_apart(Json& value) noexcept {
  if (auto* list = value.template get_ptr<typename Json::array_t*>()) {
    for (Json& entry : *list) take_apart(entry);
    list->clear();
  } else if (auto* object = value.template get_ptr<typename Json::object_t*>()) {
    for (auto& [key, entry] : *object) take_apart(entry);
    object->clear();
  }
}

template <typename Json>
class BasicOwnedJson {
 public:
  BasicOwnedJson() = default;
  BasicOwnedJson(Json value) noexcept { value_.swap(value); }  // NOLINT: what a value is moved into
  BasicOwnedJson(BasicOwnedJson&& other) noexcept { value_.swap(other.value_); }
  BasicOwnedJson& operator=(BasicOwnedJson&& other) noexcept {
    value_.swap(other.value_);
    return *this;
  }
  ~BasicOwnedJson() { take_apart(value_); }

  Json& operator*() { return value_; }
  const Json& operator*() const { return value_; }
  Json* operator->() { return &value_; }
  const Json* operator->() const { return &value_; }

 private:
  Json value_;
};

}  // namespace reprofuse
