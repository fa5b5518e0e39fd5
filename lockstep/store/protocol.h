// The wire protocol of Lockstep's store: messages and their encoding.
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
  look_up,      ///< number of keys, keys -> for each of them 1 and its value, or 0
};

enum class Status : std::uint64_t { done, refused };  ///< refused: the result is the reason as text

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
  /// The message, with its length in front. BadMessage when it is longer than the other side accepts.
  std::string message() const;

 private:
  std::string body_;
};

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

}  // namespace lockstep::store
