// Messages through one ring buffer for each pair of ranks: framed, in pieces, and buffered when no receive waits.
#include <lockstep/comm/shm/point_to_point.h>
#include <lockstep/comm/shm/segment.h>
#include <lockstep/comm/shm/spin_then_sleep.h>

#include <algorithm>
#include <cstring>

namespace lockstep::shm {
namespace {

constexpr std::size_t kAlign = 16;

// Copies into the ring at `position`, with wrap-around. An empty message may have a null address, which memcpy forbids.
void put(const RankChannel& channel, std::uint64_t position, const std::byte* data, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t at = position % channel.bytes;
  const std::size_t before_end = std::min(bytes, channel.bytes - at);
  std::memcpy(channel.ring + at, data, before_end);
  std::memcpy(channel.ring, data + before_end, bytes - before_end);
}

void get(const RankChannel& channel, std::uint64_t position, std::byte* data, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t at = position % channel.bytes;
  const std::size_t before_end = std::min(bytes, channel.bytes - at);
  std::memcpy(data, channel.ring + at, before_end);
  std::memcpy(data + before_end, channel.ring, bytes - before_end);
}

}  // namespace

PointToPoint::PointToPoint(const Segment& segment, int rank) : segment_(segment), rank_(rank) {
  static_assert(sizeof(Frame) == kAlign);
}

void PointToPoint::post(Send& send) {
  outgoing_.resize(static_cast<std::size_t>(segment_.ranks()));
  incoming_.resize(static_cast<std::size_t>(segment_.ranks()));
  outgoing_[static_cast<std::size_t>(send.peer())].sends.push_back(&send);
  ++posted_;
}

void PointToPoint::post(Receive& receive) {
  outgoing_.resize(static_cast<std::size_t>(segment_.ranks()));
  incoming_.resize(static_cast<std::size_t>(segment_.ranks()));
  auto& in = incoming_[static_cast<std::size_t>(receive.peer())];
  in.receives.push_back(&receive);
  ++posted_;
  const auto stray =
      std::find_if(in.strays.begin(), in.strays.end(), [&](const Stray& s) { return s.tag == receive.tag(); });
  if (stray == in.strays.end()) return;
  // Strays of one tag are in the order of sending. No receive of this tag waited, or it would have taken this one.
  Receive* const match = take_receive(in, stray->tag, stray->bytes.size());
  std::ranges::copy(stray->bytes, match->data());
  in.strays.erase(stray);
  match->finish();
  --posted_;
}

bool PointToPoint::advance() {
  if (posted_ == 0) return false;
  bool moved = false;
  bool sends_wait = false;
  for (int peer = 0; peer < segment_.ranks(); ++peer) {
    if (send_to(peer)) moved = true;
    sends_wait = sends_wait || !outgoing_[static_cast<std::size_t>(peer)].sends.empty();
  }
  for (int peer = 0; peer < segment_.ranks(); ++peer) {
    if (receive_from(peer, sends_wait)) moved = true;
  }
  if (moved) wake_sleepers(segment_, rank_);
  return moved;
}

bool PointToPoint::send_to(int peer) {
  auto& out = outgoing_[static_cast<std::size_t>(peer)];
  bool moved = false;
  while (!out.sends.empty()) {
    const RankChannel channel = segment_.channel(rank_, peer);
    const std::uint64_t limit = channel.ends->read.load(std::memory_order_acquire) + channel.bytes;
    if (!write_message(out, channel, limit)) break;
    channel.ends->written.store(out.position, std::memory_order_release);
    moved = true;
  }
  return moved;
}

// Writes as much of the first message as fits; false when nothing did.
bool PointToPoint::write_message(Outgoing& out, const RankChannel& channel, std::uint64_t limit) {
  Send& send = *out.sends.front();
  const std::uint64_t before = out.position;
  if (!out.framed) {
    if (limit - out.position < sizeof(Frame)) return false;
    const Frame frame{send.bytes(), send.tag(), 0};
    put(channel, out.position, reinterpret_cast<const std::byte*>(&frame), sizeof(frame));
    out.position += sizeof(frame);
    out.framed = true;
  }
  const std::size_t left = send.bytes() - out.sent;
  std::size_t count = std::min<std::size_t>(limit - out.position, left);
  if (count < left) count = count / kAlign * kAlign;  // so that every published position is a multiple
  put(channel, out.position, send.data() + out.sent, count);
  out.position += count;
  out.sent += count;
  if (out.sent == send.bytes()) {
    out.position = round_up(out.position, kAlign);  // not beyond `limit`, which is a multiple too
    out.sends.pop_front();
    out.sent = 0;
    out.framed = false;
    send.finish();
    --posted_;
  }
  return out.position != before;
}

bool PointToPoint::receive_from(int peer, bool strays_too) {
  auto& in = incoming_[static_cast<std::size_t>(peer)];
  if (in.receives.empty() && !strays_too && !in.arriving) return false;
  const RankChannel channel = segment_.channel(peer, rank_);
  bool moved = false;
  for (;;) {
    const std::uint64_t written = channel.ends->written.load(std::memory_order_acquire);
    const std::uint64_t before = in.position;
    if (!in.arriving && !read_frame(in, channel, written, strays_too)) break;
    read_payload(in, channel, written);
    channel.ends->read.store(in.position, std::memory_order_release);
    moved = moved || in.position != before;
    if (in.arriving) break;
  }
  return moved;
}

bool PointToPoint::read_frame(Incoming& in, const RankChannel& channel, std::uint64_t written, bool strays_too) {
  if (written - in.position < sizeof(Frame) || (in.receives.empty() && !strays_too)) return false;
  Arriving arriving{};
  get(channel, in.position, reinterpret_cast<std::byte*>(&arriving.frame), sizeof(Frame));
  in.position += sizeof(Frame);
  arriving.receive = take_receive(in, arriving.frame.tag, arriving.frame.bytes);
  if (arriving.receive == nullptr) arriving.stray.resize(arriving.frame.bytes);
  in.arriving = std::move(arriving);
  return true;
}

// Ends the message when it is complete.
void PointToPoint::read_payload(Incoming& in, const RankChannel& channel, std::uint64_t written) {
  Arriving& message = *in.arriving;
  const std::size_t left = message.frame.bytes - message.received;
  const std::size_t count = std::min<std::size_t>(written - in.position, left);
  std::byte* const target = message.receive != nullptr ? message.receive->data() : message.stray.data();
  get(channel, in.position, target + message.received, count);
  in.position += count;
  message.received += count;
  if (count < left) return;
  in.position = round_up(in.position, kAlign);
  arrived(in);
}

void PointToPoint::arrived(Incoming& in) {
  Arriving message = std::move(*in.arriving);
  in.arriving.reset();
  Receive* receive = message.receive;
  if (receive == nullptr) {
    // A receive may have been posted while it arrived.
    receive = take_receive(in, message.frame.tag, message.stray.size());
    if (receive == nullptr) {
      in.strays.push_back({message.frame.tag, std::move(message.stray)});
      return;
    }
    std::ranges::copy(message.stray, receive->data());
  }
  receive->finish();
  --posted_;
}

// The first receive of that tag, removed from the waiting ones; nullptr when there is none.
Receive* PointToPoint::take_receive(Incoming& in, int tag, std::size_t bytes) {
  const auto found =
      std::find_if(in.receives.begin(), in.receives.end(), [&](const Receive* r) { return r->tag() == tag; });
  if (found == in.receives.end()) return nullptr;
  Receive* const receive = *found;
  if (receive->bytes() != bytes) {
    fail(ErrorKind::mismatch, "receive", "rank {} sent {} bytes with tag {}, but rank {} receives {} bytes",
         receive->peer(), bytes, tag, rank_, receive->bytes());
  }
  in.receives.erase(found);
  return receive;
}

}  // namespace lockstep::shm
