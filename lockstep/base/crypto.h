// Digests, proofs and codes of bytes, through OpenSSL: SHA-256 (FIPS 180-4), proofs of a secret that two sides share,
// random tokens, and Base64 (RFC 4648, section 4).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Incremental hash: update() takes bytes in any pieces; hex() gives the digest of all bytes so far, at any time. Not
/// thread-safe.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);

  /// 64 lower-case hexadecimal digits.
  std::string hex() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// 32 random hexadecimal digits that cannot be guessed. Error(io) when the system has no random bytes.
std::string random_token();

/// The proof that the sender has the secret: HMAC-SHA-256 over the sender and the nonce that the other side chose.
/// `who` is the sender's role, e.g. "scheduler", so that a proof cannot be replayed to its sender (reflection attack).
std::string prove(std::string_view secret, std::string_view who, std::string_view nonce);

/// Whether `proof` is correct; compares in constant time.
bool is_proof(std::string_view proof, std::string_view secret, std::string_view who, std::string_view nonce);

/// Whether the texts are equal; compares in constant time, except for their lengths.
bool is_same_secret(std::string_view given, std::string_view secret);

/// The bytes in Base64, with padding, without line breaks.
std::string to_base64(std::string_view bytes);

/// The bytes of such a text; nullopt when `text` is not exactly the text that `to_base64` would write.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace lockstep
