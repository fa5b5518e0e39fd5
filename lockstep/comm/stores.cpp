#include <lockstep/comm/stores.h>
#include <lockstep/compat/libtorch.h>

#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

namespace lockstep::detail {
namespace {

// Who listens may be no store, and never answer. A thread that is left behind ends with its connection.
StorePtr make_client_in_time(const std::string& host, const c10d::TCPStoreOptions& options) {
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
    throw std::runtime_error(
        "who listens there says nothing: it is no store, or the process that holds the store (rank 0 or a launcher) "
        "hangs");
  }
  return store.get();
}

}  // namespace

StorePtr make_tcp_store(const std::string& host, std::uint16_t port, bool is_server,
                        std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = std::chrono::ceil<std::chrono::seconds>(timeout);  // c10d connects with whole seconds, rounded down
  compat::without_libuv(options);
  if (compat::kStoreWaitsWithoutDeadline && !is_server) return make_client_in_time(host, options);
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

}  // namespace lockstep::detail
