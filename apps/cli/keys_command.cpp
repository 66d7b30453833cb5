#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/input_files.hpp"
#include "receipt/envelope.hpp"

namespace reprofuse::cli {
namespace {

// PEM readers skip what stands before it.
void print(const receipt::PublicKey& key) {
  fmt::print("key {}\n{}", key.id(), key.pem());
}

receipt::PublicKey key_in(const std::string& file) {
  const bool is_public = read_file(file).find("-----BEGIN PUBLIC KEY-----") != std::string::npos;
  return is_public ? receipt::PublicKey::load(file) : receipt::SigningKey::load(file).public_key();
}

}  // namespace

void add_keys_command(CLI::App& app) {
  auto file = std::make_shared<std::string>();
  CLI::App* keys = app.add_subcommand("keys", "Keys that sign receipts");
  CLI::App* make =
      keys->add_subcommand("new", "Make a key, in a file that you alone can read, and print its public part");
  make->add_option("FILE", *file, "A new file")->required();
  make->callback([file] { print(receipt::SigningKey::make(*file).public_key()); });
  CLI::App* show = keys->add_subcommand("show", "Print the public part of a key, for those who verify receipts");
  show->add_option("FILE", *file, "The key's file (default: the one that REPROFUSE_KEY names)");
  show->callback([file] { print(file->empty() ? receipt::signing_key_of_environment().public_key() : key_in(*file)); });
}

}  // namespace reprofuse::cli
