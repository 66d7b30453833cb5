// Other programs on the machine that is measured.
#pragma once

#include <string_view>

#include "study/bench/other_load.hpp"

namespace reprofuse::cli {

// Made before the first time is taken, asked after the last.
class Weather {
 public:
  explicit Weather(std::string_view device) : matters_(device == "cpu") {}

  // Says on stderr that others kept cores busy meanwhile, where that falsifies what was measured.
  void warn() const;

 private:
  bool matters_;
  study::OtherLoad others_;
};

}  // namespace reprofuse::cli
