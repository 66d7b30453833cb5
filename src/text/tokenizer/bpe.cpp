#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <queue>

#include "base/check.hpp"
#include "text/tokenizer/stages.hpp"
#include "text/tokenizer/tokenizer_json.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {
namespace {

using Alphabet = std::array<char32_t, 256>;

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The bytes that do not stand for themselves are spelled U+0100, U+0101, ... in ascending order.
constexpr Alphabet make_alphabet() {
  Alphabet alphabet{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) alphabet[byte] = stands_for_itself(byte) ? byte : next++;
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();
constexpr std::size_t kAlphabetEnd = 0x144;  // one past the last character of the alphabet

constexpr std::array<std::int16_t, kAlphabetEnd> make_byte_of_character() {
  std::array<std::int16_t, kAlphabetEnd> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[kAlphabet[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}

constexpr auto kByteOfCharacter = make_byte_of_character();

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  std::string spelling;
  spelling.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_code_point(kAlphabet[static_cast<unsigned char>(byte)], spelling);
  return spelling;
}

std::string bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  for (std::size_t offset = 0; offset < spelling.size();) {
    const char32_t character = next_code_point(spelling, offset);
    if (character >= kAlphabetEnd || kByteOfCharacter[character] < 0) return std::string(spelling);
    bytes += static_cast<char>(kByteOfCharacter[character]);
  }
  return bytes;
}

namespace {

constexpr std::int32_t kNone = -1;

// A token of the piece, in a list from which merging removes.
struct Symbol {
  std::int32_t id;  // kNone once merged into the symbol before it
  std::int32_t previous, next;
};

struct Candidate {
  std::uint32_t rank;
  std::int32_t position;  // of the left symbol
  std::int32_t left, right, merged;

  // For a queue that gives its largest first: the earliest merge, then the leftmost.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

class MergeQueue {
 public:
  MergeQueue(const MergeTable& merges, std::vector<Symbol>& symbols) : merges_(merges), symbols_(symbols) {
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<std::int32_t>(i));
  }

  void run(const std::function<void()>& poll) {
    constexpr std::size_t kMergesPerPoll = 1 << 16;
    for (std::size_t merges = 1; !queue_.empty(); ++merges) {
      if (merges % kMergesPerPoll == 0 && poll) poll();
      const Candidate candidate = queue_.top();
      queue_.pop();
      if (still_there(candidate)) apply(candidate);
    }
  }

 private:
  void offer(std::int32_t position) {
    const Symbol& left = symbols_[position];
    if (left.next == kNone) return;
    const std::int32_t right = symbols_[left.next].id;
    if (const Merge* merge = merges_.find(left.id, right)) {
      queue_.push({merge->rank, position, left.id, right, merge->merged});
    }
  }

  bool still_there(const Candidate& candidate) const {
    const Symbol& left = symbols_[candidate.position];
    return left.id == candidate.left && left.next != kNone && symbols_[left.next].id == candidate.right;
  }

  void apply(const Candidate& candidate) {
    Symbol& left = symbols_[candidate.position];
    Symbol& right = symbols_[left.next];
    left.id = candidate.merged;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) symbols_[left.next].previous = candidate.position;
    if (left.previous != kNone) offer(left.previous);
    offer(candidate.position);
  }

  const MergeTable& merges_;
  std::vector<Symbol>& symbols_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void MergeTable::reserve(std::size_t pairs) {
  std::size_t slots = 16;
  while (slots < pairs * 2) slots *= 2;
  slots_.assign(slots, {kEmpty, {}});
}

bool MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  constexpr std::size_t kMaxProbe = 1024;
  const std::uint64_t key = key_of(left, right);
  std::size_t slot = home_of(key);
  std::size_t probe = 0;
  for (; slots_[slot].key != key && slots_[slot].key != kEmpty; ++probe) {
    if (probe == kMaxProbe) return false;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  longest_probe_ = std::max(longest_probe_, probe);
  slots_[slot] = {key, merge};
  return true;
}

bool insert_token(Vocabulary& vocabulary, const std::string& spelling, std::int32_t id, const JsonNode& list) {
  constexpr std::size_t kMaxBucket = 64;
  if (vocabulary.bucket_count() > 1 && vocabulary.bucket_size(vocabulary.bucket(spelling)) >= kMaxBucket)
    list.reject(fmt::format("has more than {} tokens of one hash", kMaxBucket));
  return vocabulary.emplace(spelling, id).second;
}

void append_merged(std::span<const std::int32_t> tokens, const MergeTable& merges, std::vector<std::int32_t>& ids,
                   const std::function<void()>& poll) {
  if (tokens.empty()) return;
  std::vector<Symbol> symbols(tokens.size());
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(tokens.size()); ++i) symbols[i] = {tokens[i], i - 1, i + 1};
  symbols.back().next = kNone;
  MergeQueue(merges, symbols).run(poll);
  for (std::int32_t i = 0; i != kNone; i = symbols[i].next) ids.push_back(symbols[i].id);
}

namespace {

constexpr std::size_t kMaxSpellingBytes = 8192;  // of a token; published files have hundreds

// Fails where a setting of the model would change what encoding means in a way that is not implemented.
void require_byte_level_settings(const JsonNode& model) {
  model.require_type("BPE");
  model.require_keys_among({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                            "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const auto dropout = model.find("dropout"); dropout && dropout->value() != 0) {
    dropout->reject("is not supported: encoding must not be random");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const auto found = model.find(affix); found && !found->string().empty()) found->reject("is not supported");
  }
  model.boolean_or("fuse_unk", false);  // without meaning where no token is unknown
  if (model.boolean_or("byte_fallback", false)) model.node("byte_fallback").reject("is not supported; only false is");
}

}  // namespace

Bpe::Bpe(const JsonNode& model) : file_(model.file()) {
  require_byte_level_settings(model);
  whole_pieces_first_ = model.boolean_or("ignore_merges", false);
  read_vocabulary(model.node("vocab"));
  const bool every_byte_known = std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
  if (const auto unknown = model.find("unk_token"); unknown && !every_byte_known) {
    unknown->reject("is not supported where model.vocab lacks a byte");
  }
  read_merges(model.node("merges"));
}

void Bpe::read_vocabulary(const JsonNode& vocab) {
  if (!vocab.value().is_object()) vocab.reject("must be an object");
  vocabulary_.reserve(vocab.value().size());
  for (const auto& [spelling, id] : vocab.value().items()) {
    if (spelling.empty()) vocab.reject("has a token without characters");
    if (spelling.size() > kMaxSpellingBytes)
      vocab.reject(
          fmt::format("has a token of {} bytes; at most {} are supported", spelling.size(), kMaxSpellingBytes));
    insert_token(vocabulary_, spelling, JsonNode(id, file_, "model.vocab " + spelling).token_id(), vocab);
  }
  std::array<std::size_t, 256> longest{};  // token with the byte
  for (const auto& [spelling, id] : vocabulary_) {
    const std::string bytes = bytes_of_spelling(spelling);
    for (const char byte : bytes) {
      std::size_t& max_bytes = longest[static_cast<unsigned char>(byte)];
      max_bytes = std::max(max_bytes, bytes.size());
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (longest[byte] > 0) fractions_[byte] = (std::uint64_t{1} << 32) / longest[byte];
    const char character = static_cast<char>(byte);
    const auto found = vocabulary_.find(spell_bytes({&character, 1}));
    byte_ids_[byte] = found == vocabulary_.end() ? -1 : found->second;
  }
}

void Bpe::read_merges(const JsonNode& merges) {
  const nlohmann::json& list = merges.value();
  if (!list.is_array()) merges.reject("must be an array");
  merges_.reserve(list.size());
  for (std::uint32_t rank = 0; rank < list.size(); ++rank) {
    const nlohmann::json& merge = list[rank];
    const auto reject = [&](std::string_view why) {
      JsonNode(merge, file_, fmt::format("model.merges[{}]", rank)).reject(why);
    };
    if (merge.is_string()) {
      const std::string_view pair = merge.get_ref<const std::string&>();
      const std::size_t space = pair.find(' ');
      if (space == pair.npos || pair.find(' ', space + 1) != pair.npos) reject("must be two tokens and one space");
      add_merge(pair.substr(0, space), pair.substr(space + 1), rank, merges);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), rank, merges);
    } else {
      reject("must be a string or a pair of strings");
    }
  }
}

void Bpe::add_merge(std::string_view left, std::string_view right, std::uint32_t rank, const JsonNode& merges) {
  const std::int32_t left_id = id_of_merge_part(left, rank, merges);
  const std::int32_t right_id = id_of_merge_part(right, rank, merges);
  const std::int32_t merged_id = id_of_merge_part(std::string(left) + std::string(right), rank, merges);
  if (!merges_.add(left_id, right_id, {rank, merged_id}))
    merges.reject(fmt::format("has too many pairs of one hash, at [{}]", rank));
}

std::int32_t Bpe::id_of_merge_part(std::string_view spelling, std::uint32_t rank, const JsonNode& merges) const {
  const auto found = vocabulary_.find(spelling);
  if (found == vocabulary_.end()) {
    merges.reject(fmt::format("makes use of '{}' at [{}], which is not in model.vocab", spelling, rank));
  }
  return found->second;
}

void Bpe::encode(std::string_view piece, std::vector<std::int32_t>& ids, const std::function<void()>& poll) const {
  if (whole_pieces_first_) {
    if (const auto whole = vocabulary_.find(spell_bytes(piece)); whole != vocabulary_.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  require(piece.size() < std::numeric_limits<std::int32_t>::max(), "a piece of text of {} bytes is too long to encode",
          piece.size());
  std::vector<std::int32_t> tokens;
  tokens.reserve(piece.size());
  for (const char character : piece) {
    const auto byte = static_cast<unsigned char>(character);
    require(byte_ids_[byte] >= 0, "{}: the text has the byte 0x{:02x}, for which model.vocab has no token", file_,
            byte);
    tokens.push_back(byte_ids_[byte]);
  }
  append_merged(tokens, merges_, ids, poll);
}

std::size_t Bpe::fewest_tokens(std::string_view text) const {
  std::uint64_t tokens = 0;  // times 2^32
  for (const char byte : text) tokens += fractions_[static_cast<unsigned char>(byte)];
  return tokens >> 32;
}

}  // namespace reprofuse::text
