// The wire protocol of Lockstep's store: the handshake of a connection, and the messages after it with their encoding.
//
// A message is the length of its body (4 bytes) and the body. Numbers have 8 bytes, texts are their length and their
// bytes; integers are little-endian. A request consists of a number that its client chose, an operation and that
// operation's fields. The answer has the same number, a status and a result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::store {

/// The largest sizes that either side accepts.
inline constexpr std::size_t kMostMessageBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMostKeyBytes = 4096;

enum class Operation : std::uint64_t {
  set = 1,      ///< key, value -> nothing
  get,          ///< key -> value, once the key exists
  compare_set,  ///< key, expected, desired -> the value afterwards; `expected` if the key does not exist
  add,          ///< key, number -> the sum
  remove,       ///< key -> 1 if the key existed
  check,        ///< number of keys, keys -> 1 if all exist
  wait,         ///< number of keys, keys -> nothing, once all exist
  count,        ///< -> number of keys
  cancel,       ///< number of a pending request to cancel; has no answer
};

enum class Status : std::uint64_t {
  done,
  refused,  ///< the result is the reason as text
};

/// Received bytes are not a valid message of this protocol, or the message is too long.
class BadMessage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class MessageWriter {
 public:
  MessageWriter& number(std::uint64_t value);
  MessageWriter& text(std::string_view value);
  /// The number of keys, and each of them.
  MessageWriter& keys(const std::vector<std::string>& keys);
  /// Appends the fields of another writer.
  MessageWriter& append(const MessageWriter& other);
  const std::string& body() const { return body_; }
  /// The message, with its length in front. BadMessage when it is longer than the other side accepts.
  std::string message() const;

 private:
  std::string body_;
};

/// The begin of an answer; its result follows.
MessageWriter answer_to(std::uint64_t request, Status status);

/// Reads the fields of a message's body; BadMessage when the body ends early. Returned views point into the body.
class MessageReader {
 public:
  explicit MessageReader(std::string_view body) : rest_(body) {}

  std::uint64_t number();
  std::string_view text();
  std::string key();  ///< a text of at most kMostKeyBytes
  std::string_view rest() const { return rest_; }
  void expect_end() const;

 private:
  std::string_view take(std::size_t bytes);

  std::string_view rest_;
};

/// The body of the first message in `bytes`; nullopt when it is incomplete, BadMessage when it is too long.
std::optional<std::string_view> first_body(std::string_view bytes);

/// The size of the message with this body, in bytes.
std::size_t bytes_of_message(std::string_view body);

// The handshake: the protocol, its version, TLS, and the proof of the shared secret.
//
//   client  LOCKSTEP STORE 2, a nonce
//   server  LOCKSTEP STORE 2, "secret", "open" or "tls", a nonce
//           with "tls" both begin TLS here, and this handshake again inside it
//   client  only with a secret: the proof that it has it
//   server  only with a secret: "ok" and its own proof, or "no"
//
// Each message has a fixed length. The greeting is not a valid request of c10d's store or of HTTP: such servers close
// the connection at once.

inline constexpr std::string_view kGreeting = "LOCKSTEP STORE 2\r\n";
/// The common prefix of the greetings of all versions.
inline constexpr std::string_view kGreetingOfAnyVersion = "LOCKSTEP STORE ";
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofBytes = 64;
inline constexpr std::size_t kHelloBytes = kGreeting.size() + kNonceBytes + 4;
inline constexpr std::size_t kChallengeBytes = kGreeting.size() + 7 + kNonceBytes + 2;
inline constexpr std::size_t kProofMessageBytes = kProofBytes + 2;
inline constexpr std::size_t kVerdictBytes = 3 + kProofBytes + 2;

struct Challenge {
  enum class Wants { nothing, secret, tls };
  Wants wants = Wants::nothing;
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
