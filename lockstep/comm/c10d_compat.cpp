#include <lockstep/comm/c10d_compat.h>

#include <torch/version.h>

#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

#define LOCKSTEP_SINCE_2_4 (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4))

namespace lockstep::detail {
namespace {

#if LOCKSTEP_SINCE_2_4
// The client asks for an answer as soon as it is connected, and waits for it without a deadline; who listens may be no
// store. A thread that is left behind ends with its connection.
StorePtr make_client(const std::string& host, const c10d::TCPStoreOptions& options) {
  const auto promise = std::make_shared<std::promise<StorePtr>>();
  auto store = promise->get_future();
  std::thread([promise, host, options] {
    try {
      promise->set_value(c10::make_intrusive<c10d::TCPStore>(host, options));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  if (store.wait_for(options.timeout + std::chrono::seconds(2)) != std::future_status::ready) {  // c10d tells more
    throw std::runtime_error("who listens there says nothing: it is no store, or rank 0 hangs");
  }
  return store.get();
}
#endif

}  // namespace

StorePtr make_tcp_store(const std::string& host, std::uint16_t port, bool is_server,
                        std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = std::chrono::ceil<std::chrono::seconds>(timeout);  // c10d connects with whole seconds, rounded down
#if LOCKSTEP_SINCE_2_4
  options.useLibUV = false;  // not compiled into every libtorch
  if (!is_server) return make_client(host, options);
#endif
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

}  // namespace lockstep::detail
