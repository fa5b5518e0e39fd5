#include <gtest/gtest.h>
#include <lockstep/base/crypto.h>

#include <string>

namespace lockstep {
namespace {

std::string hash_of(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

// The examples of FIPS 180-2, appendix B.
TEST(Sha256, MatchesTheStandardsExamples) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnThePieces) {
  const std::string text(1000, 'x');
  Sha256 hash;
  for (std::size_t begin = 0, size = 1; begin < text.size(); begin += size, size = size * 2 + 1) {
    hash.update(std::string_view(text).substr(begin, size));
  }
  EXPECT_EQ(hash.hex(), hash_of(text));
}

TEST(Sha256, GoesOnAfterADigest) {
  Sha256 hash;
  hash.update("a");
  EXPECT_EQ(hash.hex(), hash_of("a"));
  EXPECT_EQ(hash.hex(), hash_of("a"));
  hash.update("bc");
  EXPECT_EQ(hash.hex(), hash_of("abc"));
  Sha256 moved = std::move(hash);
  EXPECT_EQ(moved.hex(), hash_of("abc"));
}

// The examples of RFC 4648, section 10.
TEST(Base64, MatchesTheStandardsExamples) {
  const std::pair<std::string, std::string> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, CarriesEveryByte) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) {
    bytes += static_cast<char>(i * 7 % 256);
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  }
}

TEST(Base64, RefusesWhatItWouldNotWrite) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zg===", "=", "====", "Z===", "Zh==", "Zm9=", "Zm 9", "Zm9v\n", "Zm9-", "Zg==Zg==", "Z=g="}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep
