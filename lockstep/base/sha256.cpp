// A SHA-256 hash over OpenSSL's EVP interface; hex() finishes a copy, so that more bytes can follow.
#include <lockstep/base/sha256.h>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <new>

namespace lockstep {
namespace {

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
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace lockstep
