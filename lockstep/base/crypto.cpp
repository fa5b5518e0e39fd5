// A SHA-256 hash over OpenSSL's EVP interface, where hex() finishes a copy, so that more bytes can follow; HMAC-SHA-256
// proofs over a side's name and a nonce; tokens of 16 random bytes in hex; and OpenSSL's Base64 without line breaks,
// with a comparison that makes its lenient decoder strict.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <new>
#include <span>

namespace lockstep {
namespace {

std::string hex_of(std::span<const unsigned char> bytes) {
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using ContextPointer = std::unique_ptr<EVP_MD_CTX, FreeContext>;

ContextPointer make_context() {
  ContextPointer context(EVP_MD_CTX_new());
  if (!context) throw std::bad_alloc();
  return context;
}

// OpenSSL's digest calls fail only without memory or without the algorithm, which every OpenSSL 3 provider set has.
void require(int ok) {
  if (ok != 1) throw std::runtime_error("OpenSSL cannot compute SHA-256");
}

using Convert = int(unsigned char*, const unsigned char*, int);

/// Applies one of OpenSSL's functions, which count in int, to one part of `from` after the other. `into` has room for
/// all results, and is cut to them.
void convert_parts(Convert* convert, std::string_view from, std::size_t longest_part, std::string& into) {
  std::size_t size = 0;
  for (; !from.empty(); from.remove_prefix(std::min(from.size(), longest_part))) {
    const auto part = from.substr(0, longest_part);
    const int converted = convert(reinterpret_cast<unsigned char*>(into.data() + size),
                                  reinterpret_cast<const unsigned char*>(part.data()), static_cast<int>(part.size()));
    size += static_cast<std::size_t>(std::max(converted, 0));
  }
  into.resize(size);
}

}  // namespace

struct Sha256::Context {
  ContextPointer evp = make_context();
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require(EVP_DigestInit_ex(context_->evp.get(), EVP_sha256(), nullptr));
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_->evp.get(), bytes.data(), bytes.size()));
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

std::string Sha256::hex() const {
  const ContextPointer copy = make_context();
  require(EVP_MD_CTX_copy_ex(copy.get(), context_->evp.get()));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(copy.get(), digest.data(), &size));
  return hex_of({digest.data(), size});
}

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
  return is_same_secret(proof, prove(secret, who, nonce));
}

bool is_same_secret(std::string_view given, std::string_view secret) {
  return given.size() == secret.size() && ::CRYPTO_memcmp(given.data(), secret.data(), secret.size()) == 0;
}

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with the zero that OpenSSL adds
  convert_parts(&::EVP_EncodeBlock, bytes, 3 << 20, text);
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  convert_parts(&::EVP_DecodeBlock, text, 4 << 20, bytes);
  // OpenSSL writes zeros for the padding.
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.erase(bytes.size() - std::min(bytes.size(), padding));
  // It also accepts blanks around the text, and bits after the last byte.
  if (to_base64(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace lockstep
