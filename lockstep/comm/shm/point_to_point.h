// Point-to-point messages in shared memory: send and receive, matched by tag.
#pragma once

#include <lockstep/comm/shm/endpoint.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

namespace lockstep::shm {

/// One side of a message. The data must stay valid until completion.
class Message : public ShmOperation {
 public:
  Message(std::string_view name, int peer, int tag, std::size_t bytes)
      : ShmOperation(name), peer_(peer), tag_(tag), bytes_(bytes) {}
  int peer() const { return peer_; }
  int tag() const { return tag_; }
  std::size_t bytes() const { return bytes_; }

 private:
  int peer_;
  int tag_;
  std::size_t bytes_;
};

class Send : public Message {
 public:
  Send(int destination, int tag, const std::byte* data, std::size_t bytes)
      : Message("send", destination, tag, bytes), data_(data) {}
  const std::byte* data() const { return data_; }
  std::vector<Lack> lacks(const Endpoint&) const override { return {{{peer()}, "has not received it"}}; }

 private:
  const std::byte* data_;
};

class Receive : public Message {
 public:
  Receive(int source, int tag, std::byte* data, std::size_t bytes)
      : Message("receive", source, tag, bytes), data_(data) {}
  std::byte* data() const { return data_; }
  std::vector<Lack> lacks(const Endpoint&) const override { return {{{peer()}, "has not sent it"}}; }

 private:
  std::byte* data_;
};

/// Moves the bytes of messages through the channels. A send is complete when all its bytes were written to the channel.
/// While a send waits for space, messages without a receive are buffered, so that ranks which all send first can
/// continue. Stores plain pointers to messages until they are complete. Not thread-safe.
class PointToPoint {
 public:
  PointToPoint(const Segment& segment, int rank);

  void post(Send& send);
  void post(Receive& receive);

  /// Advances as far as possible without waiting; returns whether any byte moved. Error(mismatch) when a message has
  /// another size than its receive.
  bool advance();

 private:
  // The header of each message in a channel; messages start at multiples of its size.
  struct Frame {
    std::uint64_t bytes;
    std::int32_t tag;
    std::int32_t unused;
  };
  struct Outgoing {
    std::deque<Send*> sends;
    std::uint64_t position = 0;  // in the channel
    std::size_t sent = 0;        // bytes of the first send
    bool framed = false;         // the frame of the first send is written
  };
  struct Stray {
    int tag;
    std::vector<std::byte> bytes;
  };
  struct Arriving {
    Frame frame;
    Receive* receive;  // nullptr: a stray
    std::vector<std::byte> stray;
    std::size_t received = 0;
  };
  struct Incoming {
    std::deque<Receive*> receives;
    std::deque<Stray> strays;
    std::optional<Arriving> arriving;
    std::uint64_t position = 0;
  };

  bool send_to(int peer);
  bool write_message(Outgoing& out, const RankChannel& channel, std::uint64_t limit);
  bool receive_from(int peer, bool strays_too);
  bool read_frame(Incoming& in, const RankChannel& channel, std::uint64_t written, bool strays_too);
  void read_payload(Incoming& in, const RankChannel& channel, std::uint64_t written);
  void arrived(Incoming& in);
  Receive* take_receive(Incoming& in, int tag, std::size_t bytes);

  Segment segment_;
  int rank_;
  std::size_t posted_ = 0;          // messages that are not complete
  std::vector<Outgoing> outgoing_;  // by peer; both empty until the first message
  std::vector<Incoming> incoming_;
};

}  // namespace lockstep::shm
