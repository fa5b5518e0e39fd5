// The handshake of a connection to Lockstep's store: the protocol, its version, and the proof of the shared secret.
//
//   client  LOCKSTEP STORE 1, a nonce
//   server  LOCKSTEP STORE 1, "secret" or "open", a nonce
//   client  only with a secret: the proof that it knows it
//   server  only with a secret: "ok" and its own proof, or "no"
//
// Each message has a fixed length. The greeting is not a valid request of c10d's store or of HTTP: such servers close
// the connection at once.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::store {

inline constexpr std::string_view kGreeting = "LOCKSTEP STORE 1\r\n";
/// The common prefix of the greetings of all versions.
inline constexpr std::string_view kGreetingOfAnyVersion = "LOCKSTEP STORE ";
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofBytes = 64;
inline constexpr std::size_t kHelloBytes = kGreeting.size() + kNonceBytes + 4;
inline constexpr std::size_t kChallengeBytes = kGreeting.size() + 7 + kNonceBytes + 2;
inline constexpr std::size_t kProofMessageBytes = kProofBytes + 2;
inline constexpr std::size_t kVerdictBytes = 3 + kProofBytes + 2;

struct Challenge {
  bool wants_secret = false;
  std::string nonce;
};

/// The nonces that both sides chose for this connection.
struct Nonces {
  std::string of_client;
  std::string of_server;
};

/// Whether `bytes`, the first of a connection, are a prefix of (or begin with) a greeting of this version.
bool can_be_greeting(std::string_view bytes);

std::string print_hello(const std::string& nonce);
/// The client's nonce; nullopt when `bytes` are not a hello message.
std::optional<std::string> parse_hello(std::string_view bytes);

std::string print_challenge(const Challenge& challenge);
std::optional<Challenge> parse_challenge(std::string_view bytes);

std::string print_proof_of_client(const std::string& secret, const Nonces& nonces);
bool is_proof_of_client(std::string_view bytes, const std::string& secret, const Nonces& nonces);

/// `secret`: nullopt refuses the client.
std::string print_verdict(const std::optional<std::string>& secret, const Nonces& nonces);
enum class Verdict { welcome, refused, other_secret, nonsense };
Verdict read_verdict(std::string_view bytes, const std::string& secret, const Nonces& nonces);

}  // namespace lockstep::store
