// SHA-256 (FIPS 180-4), through OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
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

}  // namespace lockstep
