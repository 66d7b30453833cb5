// Load of other programs on the machine that is measured.
#pragma once

#include "study/bench/machine.hpp"

namespace reprofuse::cli {

// Made before the first measurement, printed after the last.
class OtherLoadWarning {
 public:
  // on_threads: what is measured shares its cores with other programs.
  explicit OtherLoadWarning(bool on_threads) : matters_(on_threads) {}

  // On stderr, when other programs kept cores busy meanwhile and that makes the times longer.
  void print() const;

 private:
  bool matters_;
  study::OtherLoad others_;
};

}  // namespace reprofuse::cli
