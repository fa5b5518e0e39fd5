#include <lockstep/base/secret.h>
#include <lockstep/store/handshake.h>

#include <algorithm>

namespace lockstep::store {
namespace {

constexpr std::string_view kClient = "store client";
constexpr std::string_view kServer = "store server";
constexpr std::string_view kEndOfHello = "\r\n\r\n";
constexpr std::string_view kEndOfLine = "\r\n";
constexpr std::string_view kSecret = "secret ";
constexpr std::string_view kOpen = "open   ";
constexpr std::string_view kWelcome = "ok ";
constexpr std::string_view kRefused = "no ";

std::string both(const Nonces& nonces) { return nonces.of_client + nonces.of_server; }

std::string proof_of(std::string_view who, const std::string& secret, const Nonces& nonces) {
  return prove(secret, who, both(nonces));
}

}  // namespace

bool can_be_greeting(std::string_view bytes) {
  const auto length = std::min(bytes.size(), kGreeting.size());
  return bytes.substr(0, length) == kGreeting.substr(0, length);
}

std::string print_hello(const std::string& nonce) { return std::string(kGreeting).append(nonce).append(kEndOfHello); }

std::optional<std::string> parse_hello(std::string_view bytes) {
  if (bytes.size() != kHelloBytes || !bytes.starts_with(kGreeting) || !bytes.ends_with(kEndOfHello)) {
    return std::nullopt;
  }
  return std::string(bytes.substr(kGreeting.size(), kNonceBytes));
}

std::string print_challenge(const Challenge& challenge) {
  return std::string(kGreeting)
      .append(challenge.wants_secret ? kSecret : kOpen)
      .append(challenge.nonce)
      .append(kEndOfLine);
}

std::optional<Challenge> parse_challenge(std::string_view bytes) {
  if (bytes.size() != kChallengeBytes || !bytes.starts_with(kGreeting) || !bytes.ends_with(kEndOfLine)) {
    return std::nullopt;
  }
  bytes.remove_prefix(kGreeting.size());
  if (!bytes.starts_with(kSecret) && !bytes.starts_with(kOpen)) return std::nullopt;
  return Challenge{bytes.starts_with(kSecret), std::string(bytes.substr(kSecret.size(), kNonceBytes))};
}

std::string print_proof_of_client(const std::string& secret, const Nonces& nonces) {
  return proof_of(kClient, secret, nonces).append(kEndOfLine);
}

bool is_proof_of_client(std::string_view bytes, const std::string& secret, const Nonces& nonces) {
  return bytes.size() == kProofMessageBytes && is_proof(bytes.substr(0, kProofBytes), secret, kClient, both(nonces));
}

std::string print_verdict(const std::optional<std::string>& secret, const Nonces& nonces) {
  const auto proof = secret ? proof_of(kServer, *secret, nonces) : std::string(kProofBytes, '0');
  return std::string(secret ? kWelcome : kRefused).append(proof).append(kEndOfLine);
}

Verdict read_verdict(std::string_view bytes, const std::string& secret, const Nonces& nonces) {
  if (bytes.size() != kVerdictBytes) return Verdict::nonsense;
  if (bytes.starts_with(kRefused)) return Verdict::refused;
  if (!bytes.starts_with(kWelcome)) return Verdict::nonsense;
  const auto proof = bytes.substr(kWelcome.size(), kProofBytes);
  return is_proof(proof, secret, kServer, both(nonces)) ? Verdict::welcome : Verdict::other_secret;
}

}  // namespace lockstep::store
