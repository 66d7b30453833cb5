#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "text/jinja/strings.hpp"
#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {
namespace {

// Text that grows within the budget.
class Writer {
 public:
  explicit Writer(Budget& budget) : budget_(budget) {}
  void operator<<(std::string_view part) {
    budget_.spend_bytes(part.size());
    text_ += part;
  }
  Budget& budget() { return budget_; }
  std::string take() { return std::move(text_); }

 private:
  Budget& budget_;
  std::string text_;
};

// Which characters repr() escapes beyond ASCII is a matter of Unicode's tables, which are not here.
void write_python_string(Writer& out, std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const std::string_view quote = single ? "'" : "\"";
  out << quote;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (code >= 0x80) template_error("a list or mapping with text beyond ASCII in it cannot be printed; use |tojson");
    if (byte == '\\' || byte == quote.front()) {
      out << fmt::format("\\{}", byte);
    } else if (byte == '\n' || byte == '\r' || byte == '\t') {
      out << (byte == '\n' ? "\\n" : byte == '\r' ? "\\r" : "\\t");
    } else if (code < 0x20 || code == 0x7F) {
      out << fmt::format("\\x{:02x}", code);
    } else {
      out << std::string_view(&byte, 1);
    }
  }
  out << quote;
}

void write_python(Writer& out, const Value& value, bool inside);

void write_python_sequence(Writer& out, const Sequence& sequence) {
  if (sequence.kind != SequenceKind::kList && sequence.kind != SequenceKind::kTuple) {
    template_error("a view or an iterator cannot be printed; add |list");
  }
  const bool tuple = sequence.kind == SequenceKind::kTuple;
  out << (tuple ? "(" : "[");
  for (std::size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) out << ", ";
    write_python(out, sequence.items[i], true);
  }
  if (tuple && sequence.items.size() == 1) out << ",";
  out << (tuple ? ")" : "]");
}

void write_python_mapping(Writer& out, const Mapping& mapping) {
  out << "{";
  for (std::size_t i = 0; i < mapping.items.size(); ++i) {
    if (i > 0) out << ", ";
    write_python_string(out, mapping.items[i].first);
    out << ": ";
    write_python(out, mapping.items[i].second, true);
  }
  out << "}";
}

void write_python(Writer& out, const Value& value, bool inside) {
  out.budget().spend_steps(1);
  if (const std::string* text = value.string()) {
    inside ? write_python_string(out, *text) : out << *text;
  } else if (const Sequence* sequence = value.sequence()) {
    write_python_sequence(out, *sequence);
  } else if (const Mapping* mapping = value.mapping()) {
    write_python_mapping(out, *mapping);
  } else if (const auto* integer = value.get_if<std::int64_t>()) {
    out << fmt::format("{}", *integer);
  } else if (const auto* number = value.get_if<double>()) {
    out << float_text(*number);
  } else if (const bool* boolean = value.get_if<bool>()) {
    out << (*boolean ? "True" : "False");
  } else if (value.is_none()) {
    out << "None";
  } else if (!value.is_undefined() || inside) {
    template_error("a value of type {} cannot be printed", value.type_name());
  }
}

void write_json_string(Writer& out, std::string_view text, bool ascii) {
  static constexpr std::string_view kShort = "\"\\\n\r\t\b\f";
  static constexpr std::string_view kLetters = "\"\\nrtbf";
  std::string escaped = "\"";
  for (std::size_t at = 0; at < text.size(); at += code_point_length(text[at])) {
    const char32_t code = code_point_at(text, at);
    if (const auto place = kShort.find(text[at]); place != std::string_view::npos) {
      escaped += {'\\', kLetters[place]};
    } else if (code < 0x20 || (ascii && code > 0x7E && code < 0x10000)) {
      escaped += fmt::format("\\u{:04x}", static_cast<unsigned>(code));
    } else if (ascii && code >= 0x10000) {
      const auto rest = static_cast<unsigned>(code - 0x10000);
      escaped += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    } else {
      escaped += text.substr(at, code_point_length(text[at]));
    }
  }
  escaped += '"';
  out << escaped;
}

class JsonWriter {
 public:
  JsonWriter(Writer& out, const JsonStyle& style) : out_(out), style_(style) {}

  void write(const Value& value, std::size_t level) {
    out_.budget().spend_steps(1);
    if (const std::string* text = value.string()) {
      write_json_string(out_, *text, style_.ascii);
    } else if (const Sequence* sequence = value.sequence()) {
      write_sequence(*sequence, level);
    } else if (const Mapping* mapping = value.mapping()) {
      write_mapping(*mapping, level);
    } else if (value.is_none()) {
      out_ << "null";
    } else if (const bool* boolean = value.get_if<bool>()) {
      out_ << (*boolean ? "true" : "false");
    } else if (value.get_if<std::int64_t>() != nullptr || value.get_if<double>() != nullptr) {
      out_ << to_text(value, out_.budget());
    } else {
      require_defined(value, "filter 'tojson'");
      template_error("filter 'tojson': a value of type {} has no JSON form", value.type_name());
    }
  }

 private:
  void new_line(std::size_t level) {
    if (!style_.indent) return;
    out_ << "\n";
    for (std::size_t i = 0; i < level; ++i) out_ << indentation_;
  }

  void write_sequence(const Sequence& sequence, std::size_t level) {
    if (sequence.kind != SequenceKind::kList && sequence.kind != SequenceKind::kTuple) {
      template_error("filter 'tojson': a view or an iterator has no JSON form; add |list");
    }
    out_ << "[";
    for (std::size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out_ << style_.item_separator;
      new_line(level + 1);
      write(sequence.items[i], level + 1);
    }
    if (!sequence.items.empty()) new_line(level);
    out_ << "]";
  }

  void write_mapping(const Mapping& mapping, std::size_t level) {
    std::vector<const std::pair<std::string, Value>*> items;
    for (const auto& item : mapping.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::sort(items.begin(), items.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    }
    out_ << "{";
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ << style_.item_separator;
      new_line(level + 1);
      write_json_string(out_, items[i]->first, style_.ascii);
      out_ << style_.key_separator;
      write(items[i]->second, level + 1);
    }
    if (!items.empty()) new_line(level);
    out_ << "}";
  }

  Writer& out_;
  const JsonStyle& style_;
  const std::string indentation_ = std::string(static_cast<std::size_t>(style_.indent.value_or(0)), ' ');
};

}  // namespace

std::string float_text(double value) {
  std::array<char, 32> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t e = scientific.find('e');
  const int exponent = std::atoi(std::string(scientific.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(scientific);  // both write the exponent in two digits or more

  const std::string_view sign = scientific.front() == '-' ? "-" : "";
  std::string digits;
  for (const char c : scientific.substr(sign.size(), e - sign.size())) {
    if (c != '.') digits += c;
  }
  if (exponent < 0)
    return fmt::format("{}0.{}{}", sign, std::string(static_cast<std::size_t>(-exponent - 1), '0'), digits);
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return fmt::format("{}{}{}.0", sign, digits, std::string(whole - digits.size(), '0'));
  return fmt::format("{}{}.{}", sign, digits.substr(0, whole), digits.substr(whole));
}

std::string to_text(const Value& value, Budget& budget) {
  Writer out(budget);
  write_python(out, value, false);
  return out.take();
}

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  Writer out(budget);
  JsonWriter(out, style).write(value, 0);
  return out.take();
}

}  // namespace reprofuse::text::jinja
