#include "text/date.hpp"

#include <array>
#include <cstddef>

#include "base/check.hpp"

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

}  // namespace reprofuse::text
