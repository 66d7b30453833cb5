// The date a chat template sees: given by the caller, never read from a clock, so that a prompt is the same tomorrow.
#pragma once

#include <string>
#include <string_view>

namespace reprofuse::text {

// A point in the proleptic Gregorian calendar. The default is the date that the Llama 3 templates fall back to.
struct DateTime {
  int year = 2024;  // 1 to 9999
  int month = 7;    // 1 to 12
  int day = 26;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

// "2024-07-26" or "2024-07-26T13:05:00".
DateTime parse_date(std::string_view text);
std::string to_string(const DateTime& date);

// strftime() in English: %a %A %b %B %d %e %H %I %j %m %M %p %S %y %Y %%. Any other directive is an Error.
std::string format_date(const DateTime& date, std::string_view format);

}  // namespace reprofuse::text
