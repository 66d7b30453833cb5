// Numerics by name. A contract pins every bit: it is composed of schemes, whose references define the bits and whose
// kernels reproduce them on each backend. A baseline runs a vendor's library through the same layer and pins nothing.
// Adding either means adding a row to a table: contract.cpp, or baselines.cpp. No caller changes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/schemes.hpp"

namespace reprofuse {

// One way to compute: a contract, or a baseline.
struct Numerics {
  std::string_view name;
  std::string_view summary;
  const kernels::LinearScheme* linear;
  const kernels::AttentionScheme* attention;
  const kernels::CacheFormat* cache;
  const kernels::ElementwiseScheme* elementwise;
  bool draft = false;  // its bits hold within this version alone: no golden digests of models yet, and no receipts

  bool is_contract() const { return linear->reference != nullptr; }  // false: a baseline
  bool pinned() const { return is_contract() && !draft; }            // its bits never change
  // Another contract may have the same linear layers; the one that bears their name is the first.
  bool names_its_linear() const { return linear->name == name; }
};

// Everything a context can compute by: the contracts, then the baselines.
std::vector<const Numerics*> all_numerics();
// Those that pin bits.
std::span<const Numerics> contracts();
// The others: in baselines.cpp of the library reprofuse_vendor, or none, in no_baselines.cpp.
std::span<const Numerics> baselines();

// "fma-1, fma-1-kv16, ...": the contracts, for a sentence.
std::string contract_names();

// What the tool computes by on a backend when nobody names a contract: what measurements favour there.
std::string_view default_numerics_on(std::string_view backend);

// Throws kUnsupported, listing the names there are.
const Numerics& find_numerics(std::string_view name);

// The same for work that is about pinned bits: a baseline is refused too.
const Numerics& find_contract(std::string_view name);

// The contract itself, for what outlives this version, such as receipts: throws kUnsupported for a draft.
const Numerics& require_pinned(const Numerics& contract);

}  // namespace reprofuse
