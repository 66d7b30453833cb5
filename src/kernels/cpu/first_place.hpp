// The first place, by row and then column, where any task of a parallel loop failed.
#pragma once

#include <mutex>
#include <optional>
#include <tuple>

#include "kernels/linear.hpp"

namespace reprofuse::cpu {

class FirstPlace {
 public:
  void add(kernels::Place place) {
    std::lock_guard lock(mutex_);
    if (!first_ || std::tie(place.row, place.column) < std::tie(first_->row, first_->column)) first_ = place;
  }
  std::optional<kernels::Place> get() const { return first_; }

 private:
  std::mutex mutex_;
  std::optional<kernels::Place> first_;
};

}  // namespace reprofuse::cpu
