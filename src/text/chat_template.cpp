#include "text/chat_template.hpp"

#include <array>
#include <cstddef>
#include <utility>

#include "base/check.hpp"
#include "text/jinja/ast.hpp"
#include "text/jinja/evaluator.hpp"

namespace reprofuse::text {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                      "May",       "June",     "July",     "August",
                                                      "September", "October",  "November", "December"};
constexpr std::array<std::string_view, 7> kWeekdays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                       "Thursday", "Friday", "Saturday"};
constexpr std::size_t kAbbreviation = 3;

bool is_leap(int year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int days_in_month(int year, int month) {
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDays[static_cast<std::size_t>(month - 1)] + (month == 2 && is_leap(year) ? 1 : 0);
}

int day_of_year(const DateTime& date) {
  int days = date.day;
  for (int month = 1; month < date.month; ++month) days += days_in_month(date.year, month);
  return days;
}

// 0 for Sunday. The 1st of January of year 1 was a Monday.
int weekday(const DateTime& date) {
  const int years = date.year - 1;
  return (years + years / 4 - years / 100 + years / 400 + day_of_year(date)) % 7;
}

int number_at(std::string_view text, std::size_t at, std::size_t digits) {
  int number = 0;
  for (const char digit : text.substr(at, digits)) number = number * 10 + (digit - '0');
  return number;
}

std::string format_directive(const DateTime& date, char directive) {
  const std::string_view month = kMonths[static_cast<std::size_t>(date.month - 1)];
  const std::string_view day = kWeekdays[static_cast<std::size_t>(weekday(date))];
  switch (directive) {
    case 'a': return std::string(day.substr(0, kAbbreviation));
    case 'A': return std::string(day);
    case 'b': return std::string(month.substr(0, kAbbreviation));
    case 'B': return std::string(month);
    case 'd': return fmt::format("{:02}", date.day);
    case 'e': return fmt::format("{:2}", date.day);
    case 'H': return fmt::format("{:02}", date.hour);
    case 'I': return fmt::format("{:02}", (date.hour + 11) % 12 + 1);
    case 'j': return fmt::format("{:03}", day_of_year(date));
    case 'm': return fmt::format("{:02}", date.month);
    case 'M': return fmt::format("{:02}", date.minute);
    case 'p': return date.hour < 12 ? "AM" : "PM";
    case 'S': return fmt::format("{:02}", date.second);
    case 'y': return fmt::format("{:02}", date.year % 100);
    case 'Y': return fmt::format("{}", date.year);
    case '%': return "%";
    default: fail(ErrorCode::kInvalidArgument, "date format '%{}' is not supported", directive);
  }
}

}  // namespace

DateTime parse_date(std::string_view text) {
  static constexpr std::string_view kForm = "0000-00-00T00:00:00";
  bool matches = text.size() == 10 || text.size() == kForm.size();
  for (std::size_t i = 0; matches && i < text.size(); ++i) {
    matches = kForm[i] == '0' ? text[i] >= '0' && text[i] <= '9' : text[i] == kForm[i];
  }
  require(matches, "date '{}' is not of the form 2024-07-26 or 2024-07-26T13:05:00", text);
  DateTime date{number_at(text, 0, 4), number_at(text, 5, 2), number_at(text, 8, 2)};
  if (text.size() == kForm.size()) {
    date.hour = number_at(text, 11, 2);
    date.minute = number_at(text, 14, 2);
    date.second = number_at(text, 17, 2);
  }
  const bool exists = date.year >= 1 && date.month >= 1 && date.month <= 12 && date.day >= 1 &&
                      date.day <= days_in_month(date.year, date.month);
  require(exists && date.hour < 24 && date.minute < 60 && date.second < 60, "date '{}' does not exist", text);
  return date;
}

std::string to_string(const DateTime& date) {
  std::string day = fmt::format("{:04}-{:02}-{:02}", date.year, date.month, date.day);
  if (date.hour == 0 && date.minute == 0 && date.second == 0) return day;
  return fmt::format("{}T{:02}:{:02}:{:02}", day, date.hour, date.minute, date.second);
}

std::string format_date(const DateTime& date, std::string_view format) {
  std::string text;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      text += format[i];
      continue;
    }
    require(++i < format.size(), "date format '{}' ends in '%'", format);
    text += format_directive(date, format[i]);
  }
  return text;
}

namespace {

[[noreturn]] void fail_in(const std::string& name, const jinja::TemplateError& error) {
  if (error.line() == 0) fail(ErrorCode::kInvalidArgument, "{}: {}", name, error.what());
  fail(ErrorCode::kInvalidArgument, "{} line {}: {}", name, error.line(), error.what());
}

void add_variables(jinja::Variables& all, const nlohmann::ordered_json& more, std::string_view what) {
  require(more.is_object(), "{} must be a JSON object, not {}", what, more.type_name());
  for (const auto& [name, value] : more.items())
    require(all.emplace(name, jinja::from_json(value, name)).second, "{}: template variable '{}' is already given",
            what, name);
}

template <typename Render>
std::string rendered(const std::string& name, Render render) {
  try {
    return render();
  } catch (const jinja::TemplateError& error) {
    fail_in(name, error);
  }
}

}  // namespace

struct ChatTemplate::Parsed {
  jinja::Block block;

  std::string render(jinja::Variables values, const ChatTemplate& of, const DateTime& date) const {
    jinja::Runtime runtime{jinja::Budget(of.limits_), date, {}, of.markers_.get()};
    return jinja::Evaluator(runtime, std::move(values)).render(block);
  }
};

ChatTemplate::ChatTemplate(std::string_view source, std::string name, const jinja::Limits& limits,
                           std::shared_ptr<const jinja::Markers> markers)
    : name_(std::move(name)), limits_(limits), markers_(std::move(markers)) {
  require(source.size() <= limits_.template_bytes, "{}: {} bytes are more than the {} allowed", name_, source.size(),
          limits_.template_bytes);
  try {
    parsed_ = std::make_unique<const Parsed>(Parsed{jinja::parse(source)});
    variables_ = jinja::free_names(parsed_->block);
  } catch (const jinja::TemplateError& error) {
    fail_in(name_, error);
  }
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const nlohmann::ordered_json& messages, const ChatVariables& given) const {
  return render(messages, given, given.special_tokens);
}

std::string ChatTemplate::render(const nlohmann::ordered_json& messages, const ChatVariables& given,
                                 const nlohmann::ordered_json& special_tokens) const {
  require(messages.is_array(), "{}: messages must be a JSON array, not {}", name_, messages.type_name());
  return rendered(name_, [&] {
    jinja::Variables values;
    values.emplace("messages", jinja::from_json(messages, "messages"));
    values.emplace("tools", jinja::from_json(given.tools, "tools"));
    values.emplace("add_generation_prompt", jinja::from_json(given.add_generation_prompt, "add_generation_prompt"));
    if (given.enable_thinking)
      values.emplace("enable_thinking", jinja::from_json(*given.enable_thinking, "enable_thinking"));
    add_variables(values, special_tokens, "special_tokens");
    add_variables(values, *given.variables, "variables");
    return parsed_->render(std::move(values), *this, given.date);
  });
}

std::string ChatTemplate::render_variables(const nlohmann::ordered_json& variables, const DateTime& date) const {
  require(variables.is_object(), "{}: variables must be a JSON object, not {}", name_, variables.type_name());
  return rendered(name_, [&] {
    jinja::Variables values;
    for (const auto& [name, value] : variables.items()) values.emplace(name, jinja::from_json(value, name));
    return parsed_->render(std::move(values), *this, date);
  });
}

}  // namespace reprofuse::text
