#include <lockstep/comm/gloo/closable_gloo.h>

#include <lockstep/comm/gloo/without_sigpipe.h>

#include <gloo/allgather.h>
#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>

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
  const auto tag = nextTag();
  std::string mine = text;
  std::string all(text.size() * static_cast<std::size_t>(size_), '\0');
  ::gloo::AllgatherOptions options(getContext(tag));
  options.setInput(mine.data(), mine.size());
  options.setOutput(all.data(), all.size());
  options.setTag(tag);
  ::gloo::allgather(options);

  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += text.size()) texts.push_back(all.substr(at, text.size()));
  return texts;
}

ClosableGloo::Line ClosableGloo::line() {
  constexpr std::uint8_t kOurs = 0x40;  // Gloo's own collectives have the numbers from 1 on
  const auto tag = nextTag();
  return {getContext(tag), ::gloo::Slot::build(kOurs, tag)};
}

void ClosableGloo::close() noexcept {
  if (closed_.exchange(true)) return;
  for (const auto& context : contexts_) {
    try {
      // closeConnections() would leave this process's own waiting threads asleep. A wait that times out is what makes
      // Gloo give up all connections of a context and wake everybody who waits for one.
      std::byte nothing{};
      const auto buffer = context->createUnboundBuffer(&nothing, sizeof(nothing));
      buffer->waitRecv(nullptr, std::chrono::milliseconds(1));
    } catch (const std::exception&) {
      // The expected way out: the connections are closed now.
    }
  }
}

}  // namespace lockstep::detail::gloo
