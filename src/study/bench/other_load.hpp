// What other programs take of the machine while something is measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprofuse::study {

// Ticks that all cores together were not idle, from the text of /proc/stat; what a hypervisor took for other guests
// counts, and guests of this machine count once. None when the text is something else.
std::optional<std::int64_t> busy_ticks(std::string_view proc_stat);

// Seconds of cores that were in use since some moment, at another.
struct CoreUse {
  double at;   // seconds
  double all;  // by everyone
  double own;  // by this process
};
std::optional<CoreUse> core_use_now();  // none where the system does not tell

// Cores that others kept busy between the two, on average.
double other_cores(const CoreUse& begin, const CoreUse& end);

// Begins when it is made.
class OtherLoad {
 public:
  OtherLoad() : begin_(core_use_now()) {}

  std::optional<double> cores() const;  // since then

 private:
  std::optional<CoreUse> begin_;
};

}  // namespace reprofuse::study
