// ProcessGroupGloo with an exchange of texts, with slots for own messages, and with a close that ends pending waits.
#include <lockstep/comm/gloo/closable_gloo.h>

#include <lockstep/comm/gloo/without_sigpipe.h>

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstddef>

namespace lockstep::detail::gloo {

ClosableGloo::~ClosableGloo() {
  // The base class joins threads that would otherwise wait for other ranks until their timeout.
  bool busy = false;
  {
    const std::lock_guard lock(workMutex_);
    busy = !workQueue_.empty();
    for (const auto& work : workInProgress_) busy = busy || work;
  }
  if (busy) close();
}

void ClosableGloo::set_timeout(std::chrono::milliseconds timeout) {
  for (const auto& context : contexts_) context->setTimeout(timeout);
}

std::vector<std::string> ClosableGloo::exchange(const std::string& text) {
  const WithoutSigpipe guard;
  const auto [context, slot] = line();
  const auto ranks = static_cast<std::size_t>(size_);
  const auto mine = static_cast<std::size_t>(rank_);
  std::string sent = text;
  std::string all(text.size() * ranks, '\0');
  const auto out = context->createUnboundBuffer(sent.data(), sent.size());
  const auto in = context->createUnboundBuffer(all.data(), all.size());
  for (std::size_t other = 1; other < ranks; ++other) {
    const auto from = (mine + ranks - other) % ranks;
    in->recv(static_cast<int>(from), slot, from * text.size(), text.size());
    out->send(static_cast<int>((mine + other) % ranks), slot, 0, text.size());
  }
  for (std::size_t other = 1; other < ranks; ++other) {
    in->waitRecv();
    out->waitSend();
  }

  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += text.size()) texts.push_back(all.substr(at, text.size()));
  texts[mine] = text;
  return texts;
}

ClosableGloo::Line ClosableGloo::line() {
  // Gloo's slots have the kind of a collective in their first byte, from 1 on, followed by the number of the call.
  constexpr std::uint64_t kOurs = 0x40;
  const auto tag = nextTag();
  return {getContext(tag), kOurs << 56 | std::uint64_t{tag} << 24};
}

void ClosableGloo::close() noexcept {
  if (closed_.exchange(true)) return;
  for (const auto& context : contexts_) {
    try {
      // closeConnections() would not wake this process's own waiting threads. A wait that times out makes Gloo close
      // all connections of a context and wake all threads that wait for one.
      std::byte nothing{};
      const auto buffer = context->createUnboundBuffer(&nothing, sizeof(nothing));
      buffer->waitRecv(nullptr, std::chrono::milliseconds(1));
    } catch (const std::exception&) {
      // Expected: the connections are now closed.
    }
  }
}

}  // namespace lockstep::detail::gloo
