// Other programs on the machine that is measured.
#pragma once

#include "study/bench/other_load.hpp"

namespace reprofuse::cli {

// Made before the first time is taken, asked after the last.
class Weather {
 public:
  // on_threads: what is measured shares its cores with other programs.
  explicit Weather(bool on_threads) : matters_(on_threads) {}

  // Says on stderr that others kept cores busy meanwhile, where that falsifies what was measured.
  void warn() const;

 private:
  bool matters_;
  study::OtherLoad others_;
};

}  // namespace reprofuse::cli
