// HMAC-SHA-256 proofs over a side's name and a nonce, and tokens of 16 random bytes in hex, through OpenSSL.
#include <lockstep/base/error.h>
#include <lockstep/base/secret.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <span>

namespace lockstep {
namespace {

std::string hex_of(std::span<const unsigned char> bytes) {
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (::RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    fail(ErrorKind::io, "secret", "the system has no random bytes");
  }
  return hex_of(bytes);
}

std::string prove(std::string_view secret, std::string_view who, std::string_view nonce) {
  const std::string said = fmt::format("lockstep 1\n{}\n{}", who, nonce);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  ::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(said.data()), said.size(), digest.data(), &length);
  return hex_of({digest.data(), length});
}

bool is_proof(std::string_view proof, std::string_view secret, std::string_view who, std::string_view nonce) {
  const auto expected = prove(secret, who, nonce);
  return proof.size() == expected.size() && ::CRYPTO_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

}  // namespace lockstep
