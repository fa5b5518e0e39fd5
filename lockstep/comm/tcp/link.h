// The connection to one peer: messages in both directions over one stream, matched by their tags.
//
//   whole    tag, bytes, then that many bytes      a message of up to kWhole bytes, sent at once
//   offer    tag, bytes                            a longer one, which waits for
//   ready    tag                                   its receiver, and is then sent as
//   content  tag, bytes, then that many bytes
//   left                                           nothing follows: this side needs no more of the other
//
// Each begins with a header of 24 bytes: type, tag, number of bytes; numbers are little-endian. A message that arrives
// before its receive is buffered, so one message never blocks another that was sent later. Not thread-safe.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/tcp/operation.h>
#include <lockstep/comm/tcp/stream.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail::tcp {

/// A connected peer: both sides have verified each other.
struct Connection {
  UniqueFd socket;
  std::unique_ptr<Stream> stream;
  std::string rank;  ///< "rank 1", for errors
  std::string name;  ///< "rank 1 (pid 4711 on node-b) at 10.0.0.2:4711"
};

/// A part of an operation: memory to send, or to receive into.
struct Message {
  std::shared_ptr<Operation> operation{};
  int exchange = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// The outcome of messages; the caller of a Link takes it from here.
struct Results {
  std::vector<Message> completed;
  std::vector<std::pair<Message, Error>> failed;
};

class Link {
 public:
  Link(Connection connection, Results& results) : connection_(std::move(connection)), results_(results) {}

  void send(Message message);
  void receive(Message message);

  /// Sends the queued data, as far as the kernel accepts it. False: the rest waits for the socket.
  bool write();
  /// Reads a limited amount. False: there may be more to read now.
  bool read();

  /// The number of bytes that are queued and not sent.
  std::size_t waiting_bytes() const { return waiting_bytes_; }
  bool waits_to_write() const { return !broken_ && waits_to_write_; }
  /// Whether it may read; false while too much data without a receive has arrived.
  bool wants_to_read() const { return !broken_ && arrived_bytes_ < kMostArrived; }
  bool broken() const { return broken_.has_value(); }
  int socket() const { return connection_.socket.get(); }

  /// Ends the connection: all pending and later messages fail with `reason`.
  void close(const Error& reason);
  /// Sends the end of the connection to the peer, which has everything it needs.
  void end() noexcept;

 private:
  static constexpr std::size_t kHeader = 24;
  static constexpr std::size_t kWhole = std::size_t{256} << 10;
  static constexpr std::size_t kMostArrived = std::size_t{64} << 20;
  enum class Kind : std::uint64_t { whole = 1, offer, ready, content, left };
  struct Header {
    Kind kind;
    std::uint64_t tag;
    std::uint64_t bytes;
  };

  struct Frame {
    std::vector<std::byte> front;  ///< the header, and a short message behind it
    Message message{};             ///< without an operation: no thread waits for it
    std::size_t taken = 0;         ///< bytes of front and payload that the stream has taken
    bool copied = false;           ///< the payload is in `front`
    std::size_t payload() const { return copied ? 0 : message.bytes; }
    std::size_t left() const { return front.size() + payload() - taken; }
  };

  /// A message that arrived before its receive.
  struct Arrived {
    std::size_t bytes = 0;
    bool offer = false;
    std::unique_ptr<std::byte[]> data{};
    bool complete = false;
    std::optional<Message> taker{};
  };
  /// The message that is being received.
  struct Incoming {
    std::byte* into = nullptr;
    std::size_t left = 0;
    std::optional<Message> message{};
    std::shared_ptr<Arrived> arrived{};
    std::unique_ptr<std::byte[]> discarded{};
  };

  void queue(Kind kind, std::uint64_t tag, Message message);
  void write_frames();
  std::size_t write_some();
  void take(const Header& header);
  void take_whole(const Header& header);
  void take_offer(const Header& header);
  void take_content(const Header& header);
  void finish_incoming();
  bool fits(const Message& message, std::uint64_t bytes);
  void await_content(Message message);
  void deliver(Arrived& arrived, Message message);
  [[noreturn]] void refuse_nonsense() const;
  void fail_all(const Error& reason);

  Connection connection_;
  Results& results_;
  std::optional<Error> broken_;

  std::deque<Frame> frames_;
  std::vector<Message> unflushed_;  ///< accepted by the stream, perhaps still in its buffer
  std::size_t waiting_bytes_ = 0;
  bool waits_to_write_ = false;
  std::map<std::uint64_t, std::deque<Message>> offered_;  ///< to be sent, by tag

  std::map<std::uint64_t, std::deque<Message>> posted_;   ///< to be received; nothing has arrived
  std::map<std::uint64_t, std::deque<Message>> awaited_;  ///< to be received; the peer was informed
  std::map<std::uint64_t, std::deque<std::shared_ptr<Arrived>>> arrived_;
  std::size_t arrived_bytes_ = 0;
  std::array<std::byte, kHeader> header_{};
  std::size_t header_bytes_ = 0;
  std::optional<Incoming> incoming_;
};

}  // namespace lockstep::detail::tcp
