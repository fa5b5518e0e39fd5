// The messages of Lockstep's store, and how they lie in bytes.
//
// A message is the length of its body (4 bytes) and the body. Numbers have 8 bytes, texts are their length and their
// bytes; the lowest byte comes first. A request is a number that its client chose, an operation and that operation's
// fields; the answer has the same number, a status and a result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep::store {

/// Limits of what either side accepts.
inline constexpr std::size_t kMostMessageBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMostKeyBytes = 4096;

enum class Operation : std::uint64_t {
  set = 1,      ///< key, value -> nothing
  get,          ///< key -> value, once it is there
  compare_set,  ///< key, expected, desired -> the value afterwards; `expected` where the key is not there
  add,          ///< key, number -> the sum
  remove,       ///< key -> 1: it was there
  check,        ///< number of keys, keys -> 1: all are there
  wait,         ///< number of keys, keys -> nothing, once all are there
  count,        ///< -> number of keys
  cancel,       ///< number of a request that is no longer waited for; has no answer
};

enum class Status : std::uint64_t { done, refused };  ///< refused: the result is a text that says why

/// What arrived is no message of this protocol, or too long.
class BadMessage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class MessageWriter {
 public:
  MessageWriter& number(std::uint64_t value);
  MessageWriter& text(std::string_view value);
  /// What another writer holds.
  MessageWriter& append(const MessageWriter& other);
  /// With the length in front. BadMessage when it is longer than the other side accepts.
  std::string message() const;

 private:
  std::string body_;
};

/// Reads the body of a message; BadMessage when that ends early. What it returns points into the body.
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

/// The body of the first message in `bytes`, nullopt when it has not come whole; BadMessage when it is too long.
std::optional<std::string_view> first_body(std::string_view bytes);

/// Bytes of the message with this body.
std::size_t bytes_of_message(std::string_view body);

}  // namespace lockstep::store
