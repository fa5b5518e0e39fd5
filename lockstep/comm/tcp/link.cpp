// The frames of a connection in order of call, and queues of messages by tag: offered, posted, awaited and arrived.
#include <lockstep/comm/tcp/link.h>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <span>

namespace lockstep::detail::tcp {
namespace {

using Wait = Stream::Wait;

constexpr std::size_t kCopied = std::size_t{8} << 10;       // shorter messages follow their header, in one record
constexpr std::size_t kWriteAtOnce = std::size_t{1} << 20;  // so that other links get their turn
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;

void put(std::byte* to, std::uint64_t number) {
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::byte>(number >> (8 * i));
}

std::uint64_t number_at(const std::byte* from) {
  std::uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return number;
}

/// The first element of a tag, removed; nullopt where there is none.
template <typename Queues>
auto pop(Queues& queues, std::uint64_t tag) {
  std::optional<typename Queues::mapped_type::value_type> first;
  const auto found = queues.find(tag);
  if (found == queues.end()) return first;
  first = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) queues.erase(found);
  return first;
}

}  // namespace

// ---- sending

void Link::send(Message message) {
  if (broken_) return results_.failed.emplace_back(std::move(message), *broken_), void();
  const auto tag = message.operation->tag();
  if (message.bytes <= kWhole) return queue(Kind::whole, tag, std::move(message));
  queue(Kind::offer, tag, {.bytes = message.bytes});
  offered_[tag].push_back(std::move(message));
}

void Link::queue(Kind kind, std::uint64_t tag, Message message) {
  Frame frame;
  const bool has_payload = message.operation != nullptr;
  frame.copied = !has_payload || message.bytes <= kCopied;
  frame.front.resize(kHeader + (has_payload && frame.copied ? message.bytes : 0));
  put(frame.front.data(), static_cast<std::uint64_t>(kind));
  put(frame.front.data() + 8, tag);
  put(frame.front.data() + 16, message.bytes);
  if (frame.front.size() > kHeader) std::memcpy(frame.front.data() + kHeader, message.data, message.bytes);
  frame.message = std::move(message);
  waiting_bytes_ += frame.front.size() + frame.payload();
  frames_.push_back(std::move(frame));
}

bool Link::write() {
  if (broken_) return true;
  try {
    write_frames();
  } catch (const Error& error) {
    close(Error(ErrorKind::peer_lost, "tcp", fmt::format("{}: {}", connection_.name, error.message())));
  }
  return !waits_to_write_ || broken_.has_value();
}

void Link::write_frames() {
  waits_to_write_ = false;
  for (std::size_t budget = kWriteAtOnce; !frames_.empty() && budget > 0 && !waits_to_write_;) {
    budget -= std::min(budget, write_some());
  }
  if (connection_.stream->flush() == Wait::to_write) {
    waits_to_write_ = true;
    return;
  }
  for (auto& message : unflushed_) results_.completed.push_back(std::move(message));
  unflushed_.clear();
  if (!frames_.empty()) waits_to_write_ = true;  // also where only its turn has ended
}

// Passes the first frames to the stream together, and returns the number of bytes that it took.
std::size_t Link::write_some() {
  std::array<iovec, 32> parts{};
  std::size_t count = 0;
  for (auto frame = frames_.begin(); frame != frames_.end() && count + 2 <= parts.size(); ++frame) {
    const std::size_t front = frame->front.size();
    if (frame->taken < front) parts[count++] = {frame->front.data() + frame->taken, front - frame->taken};
    const std::size_t after = frame->taken - std::min(frame->taken, front);
    if (after < frame->payload()) parts[count++] = {frame->message.data + after, frame->payload() - after};
  }
  const auto moved = connection_.stream->write(std::span(parts).first(count));
  waits_to_write_ = moved.wait != Wait::nothing;  // never to read, as TLS 1.3 has no renegotiation
  waiting_bytes_ -= moved.bytes;
  for (std::size_t bytes = moved.bytes; bytes > 0;) {
    Frame& frame = frames_.front();
    const auto taken = std::min(bytes, frame.left());
    frame.taken += taken;
    bytes -= taken;
    if (frame.left() > 0) break;
    if (frame.message.operation) unflushed_.push_back(std::move(frame.message));
    frames_.pop_front();
  }
  return moved.bytes;
}

// ---- receiving

void Link::receive(Message message) {
  const auto tag = message.operation->tag();
  if (const auto first = pop(arrived_, tag)) return deliver(**first, std::move(message));
  if (broken_) return results_.failed.emplace_back(std::move(message), *broken_), void();
  posted_[tag].push_back(std::move(message));
}

// Copies the message into the memory of the receive that waits for it now.
void Link::deliver(Arrived& arrived, Message message) {
  if (!fits(message, arrived.bytes)) {
    if (arrived.complete) arrived_bytes_ -= arrived.bytes;
    return;
  }
  if (arrived.offer) return await_content(std::move(message));
  if (!arrived.complete) return arrived.taker.emplace(std::move(message)), void();
  if (arrived.bytes > 0) std::memcpy(message.data, arrived.data.get(), arrived.bytes);
  arrived_bytes_ -= arrived.bytes;
  results_.completed.push_back(std::move(message));
}

void Link::await_content(Message message) {
  if (broken_) return results_.failed.emplace_back(std::move(message), *broken_), void();
  const auto tag = message.operation->tag();
  queue(Kind::ready, tag, {});
  awaited_[tag].push_back(std::move(message));
}

/// Fails a message whose length differs from the peer's.
bool Link::fits(const Message& message, std::uint64_t bytes) {
  if (message.bytes == bytes) return true;
  if (message.operation->is_message()) {
    const auto text = fmt::format("{} sent {} bytes with tag {}, but the tensor to receive into has {}",
                                  connection_.rank, bytes, message.operation->tag() & ~kMessageBit, message.bytes);
    results_.failed.emplace_back(message, Error(ErrorKind::mismatch, "receive", text));
  } else {
    const auto text = fmt::format("{} sent {} bytes where this rank expects {}: the ranks are in different collectives",
                                  connection_.rank, bytes, message.bytes);
    results_.failed.emplace_back(message, Error(ErrorKind::peer_lost, "tcp", text));
  }
  return false;
}

bool Link::read() {
  if (broken_) return true;
  try {
    for (std::size_t budget = kReadAtOnce; budget > 0 && wants_to_read();) {
      std::byte* into = incoming_ ? incoming_->into : header_.data() + header_bytes_;
      const std::size_t most = incoming_ ? incoming_->left : kHeader - header_bytes_;
      const auto moved = connection_.stream->read(into, most);
      if (moved.ended) throw Error(ErrorKind::io, "tcp", "it closed the connection");
      if (moved.bytes == 0) return true;
      budget -= std::min(budget, moved.bytes);
      if (incoming_) {
        incoming_->into += moved.bytes;
        incoming_->left -= moved.bytes;
        if (incoming_->left == 0) finish_incoming();
        continue;
      }
      header_bytes_ += moved.bytes;
      if (header_bytes_ < kHeader) continue;
      header_bytes_ = 0;
      take({static_cast<Kind>(number_at(header_.data())), number_at(header_.data() + 8),
            number_at(header_.data() + 16)});
      if (incoming_ && incoming_->left == 0) finish_incoming();
    }
  } catch (const Error& error) {
    close(Error(ErrorKind::peer_lost, "tcp", fmt::format("{}: {}", connection_.name, error.message())));
    return true;
  }
  return !wants_to_read();
}

void Link::take(const Header& header) {
  switch (header.kind) {
    case Kind::whole: return take_whole(header);
    case Kind::offer: return take_offer(header);
    case Kind::ready:
      if (auto message = pop(offered_, header.tag)) return queue(Kind::content, header.tag, std::move(*message));
      refuse_nonsense();
    case Kind::content: return take_content(header);
    case Kind::left: throw Error(ErrorKind::io, "tcp", "it has left the group");
  }
  refuse_nonsense();
}

void Link::refuse_nonsense() const { throw Error(ErrorKind::data, "tcp", "it sent an invalid message"); }

void Link::take_whole(const Header& header) {
  if (header.bytes > kWhole) refuse_nonsense();
  const auto bytes = static_cast<std::size_t>(header.bytes);
  auto& incoming = incoming_.emplace();
  incoming.left = bytes;
  auto message = pop(posted_, header.tag);
  if (message && fits(*message, header.bytes)) {
    incoming.into = message->data;
    incoming.message = std::move(message);
  } else if (message) {
    incoming.discarded = std::make_unique_for_overwrite<std::byte[]>(bytes);
    incoming.into = incoming.discarded.get();
  } else {
    const auto arrived = std::make_shared<Arrived>();
    arrived->bytes = bytes;
    arrived->data = std::make_unique_for_overwrite<std::byte[]>(bytes);
    arrived_bytes_ += bytes;
    arrived_[header.tag].push_back(arrived);
    incoming.into = arrived->data.get();
    incoming.arrived = arrived;
  }
}

void Link::take_offer(const Header& header) {
  if (auto message = pop(posted_, header.tag)) {
    if (fits(*message, header.bytes)) await_content(std::move(*message));
    return;
  }
  const auto arrived = std::make_shared<Arrived>();
  arrived->bytes = static_cast<std::size_t>(header.bytes);
  arrived->offer = true;
  arrived_[header.tag].push_back(arrived);
}

void Link::take_content(const Header& header) {
  auto message = pop(awaited_, header.tag);
  if (!message || message->bytes != header.bytes) refuse_nonsense();
  auto& incoming = incoming_.emplace();
  incoming.into = message->data;
  incoming.left = message->bytes;
  incoming.message = std::move(message);
}

void Link::finish_incoming() {
  Incoming done = std::move(*incoming_);
  incoming_.reset();
  if (done.message) results_.completed.push_back(std::move(*done.message));
  if (!done.arrived) return;
  done.arrived->complete = true;
  if (auto taker = std::exchange(done.arrived->taker, std::nullopt)) deliver(*done.arrived, std::move(*taker));
}

// ---- the end

void Link::close(const Error& reason) {
  if (broken_) return;
  broken_ = reason;
  ::shutdown(connection_.socket.get(), SHUT_RDWR);
  fail_all(reason);
}

void Link::fail_all(const Error& reason) {
  const auto fail_one = [&](Message& message) {
    if (message.operation) results_.failed.emplace_back(std::move(message), reason);
  };
  for (auto& frame : frames_) fail_one(frame.message);
  for (auto& message : unflushed_) fail_one(message);
  for (auto* queues : {&offered_, &posted_, &awaited_}) {
    for (auto& [tag, messages] : *queues) std::for_each(messages.begin(), messages.end(), fail_one);
    queues->clear();
  }
  if (incoming_ && incoming_->message) fail_one(*incoming_->message);
  if (incoming_ && incoming_->arrived && incoming_->arrived->taker) fail_one(*incoming_->arrived->taker);
  frames_.clear();
  unflushed_.clear();
  waiting_bytes_ = 0;
  waits_to_write_ = false;
  // Messages that arrived completely are kept for later receives.
  for (auto& [tag, arrived] : arrived_) std::erase_if(arrived, [](const auto& one) { return !one->complete; });
  std::erase_if(arrived_, [](const auto& one) { return one.second.empty(); });
  incoming_.reset();
}

void Link::end() noexcept {
  try {
    queue(Kind::left, 0, {});
    write();
  } catch (const std::exception&) {  // out of memory: the peer finds the connection closed
  }
}

}  // namespace lockstep::detail::tcp
