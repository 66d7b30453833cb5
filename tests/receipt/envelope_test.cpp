// Base64, canonical JSON, keys and envelopes: what is signed, and that nothing else passes for it.
#include "receipt/envelope.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "support/files.hpp"
#include "support/messages.hpp"

namespace reprofuse::receipt {
namespace {

TEST(Base64, IsThatOfRfc4648AndNothingElseIsRead) {
  const std::pair<std::string, std::string> vectors[] = {
      {"", ""},        {"f", "Zg=="},          {"fo", "Zm8="},
      {"foo", "Zm9v"}, {"foobar", "Zm9vYmFy"}, {std::string("\xff\xfe\0", 3), "//4A"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  for (const char* wrong : {"Zg", "Zg=", "Zh==", "Zm9=", "Zm9v=", "Z", "Zm9v\n", "Zm-v", "====", "Zg==Zg=="})
    EXPECT_FALSE(from_base64(wrong)) << wrong;
}

TEST(CanonicalJson, HasSortedKeysAndNoWhiteSpace) {
  EXPECT_EQ(canonical_json(nlohmann::json::parse(R"({ "b": [1, null, true], "a": "\u00e9\u0001\n" })")),
            "{\"a\":\"\xC3\xA9\\u0001\\n\",\"b\":[1,null,true]}");
  EXPECT_TRUE(contains(error_of([] { canonical_json("\xff"); }), "UTF-8"));
}

// The test vector of github.com/secure-systems-lab/dsse, for its own payload type, has the same form.
TEST(Envelope, SignsThePreAuthenticationEncodingOfDsse) {
  EXPECT_EQ(pre_authentication("hello"), "DSSEv1 28 application/vnd.in-toto+json 5 hello");
}

TEST(Envelope, ReadsWhatItWritesAndRefusesTheRest) {
  const Envelope envelope{"{}", "key", "sig"};
  const Envelope again = parse_envelope(envelope.text(), "it");
  EXPECT_EQ(again.payload, "{}");
  EXPECT_EQ(again.text(), envelope.text());
  auto json = nlohmann::json::parse(envelope.text());
  for (const char* key : {"payload", "payloadType", "signatures"}) {
    auto lacking = json;
    lacking.erase(key);
    EXPECT_NE(error_of([&] { parse_envelope(lacking.dump(), "it"); }), "") << key;
  }
  json["more"] = 1;
  EXPECT_NE(error_of([&] { parse_envelope(json.dump(), "it"); }), "");
  for (const char* wrong : {"", "[]", "{", "null", R"({"signatures":[]})", R"({"signatures":{}})"})
    EXPECT_NE(error_of([&] { parse_envelope(wrong, "it"); }), "") << wrong;
}

TEST(Keys, SignAndVerifyAndAreReadAgain) {
  const TemporaryFolder folder;
  const SigningKey key = SigningKey::make(folder.file("key"));
  struct stat facts = {};
  ASSERT_EQ(stat(folder.file("key").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  const SigningKey same = SigningKey::load(folder.file("key"));
  EXPECT_EQ(same.public_key(), key.public_key());
  const std::string signature = key.sign("words");
  EXPECT_EQ(same.sign("words"), signature);
  EXPECT_TRUE(key.public_key().verifies("words", signature));
  EXPECT_FALSE(key.public_key().verifies("word", signature));
  EXPECT_FALSE(key.public_key().verifies("words", signature.substr(1)));
  EXPECT_FALSE(SigningKey::make(folder.file("other")).public_key().verifies("words", signature));
  write_file(folder.file("public"), "key of somebody\n" + key.public_key().pem());
  EXPECT_EQ(PublicKey::load(folder.file("public")), key.public_key());
}

TEST(Keys, APointOfSmallOrderIsNoKey) {
  PublicKey::Raw raw{};
  for (const std::uint8_t first : {0, 1}) {
    raw[0] = first;
    raw[31] = 0;
    EXPECT_TRUE(contains(error_of([&] { PublicKey{raw}; }), "small order"));
    raw[31] = 0x80;
    EXPECT_TRUE(contains(error_of([&] { PublicKey{raw}; }), "small order")) << "with a sign";
  }
  raw[0] = 2;
  EXPECT_EQ(error_of([&] { PublicKey{raw}; }), "");
}

TEST(Keys, WhatOthersCanReadIsNoKeyAndAFileThatIsThereStays) {
  const TemporaryFolder folder;
  SigningKey::make(folder.file("key"));
  const std::string before = read_whole_file(folder.file("key"));
  EXPECT_TRUE(contains(error_of([&] { SigningKey::make(folder.file("key")); }), "exists"));
  EXPECT_EQ(read_whole_file(folder.file("key")), before);
  for (const unsigned mode : {0640U, 0604U, 0610U, 0660U}) {
    chmod(folder.file("key").c_str(), mode);
    EXPECT_TRUE(contains(error_of([&] { SigningKey::load(folder.file("key")); }), "others than its owner")) << mode;
  }
  chmod(folder.file("key").c_str(), 0400);
  EXPECT_EQ(error_of([&] { SigningKey::load(folder.file("key")); }), "");
  write_file(folder.file("text"), "no key");
  chmod(folder.file("text").c_str(), 0600);
  EXPECT_TRUE(contains(error_of([&] { SigningKey::load(folder.file("text")); }), "no private key"));
  EXPECT_TRUE(contains(error_of([&] { PublicKey::load(folder.file("text")); }), "no public key"));
  EXPECT_TRUE(contains(error_of([&] { SigningKey::load(folder.file("nothing")); }), "cannot be read"));
}

}  // namespace
}  // namespace reprofuse::receipt
