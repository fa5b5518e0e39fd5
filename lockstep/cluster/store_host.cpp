#include <lockstep/base/error.h>
#include <lockstep/cluster/store_host.h>
#include <lockstep/comm/stores.h>

#include <torch/cuda.h>

namespace lockstep::cluster {

struct StoreHost::State {
  detail::StorePtr store;
  std::uint16_t port = 0;
};

StoreHost::StoreHost() : state_(std::make_unique<State>()) {
  try {
    state_->store = detail::make_tcp_store("127.0.0.1", 0, true, std::chrono::seconds(60));
    state_->port = dynamic_cast<const c10d::TCPStore&>(*state_->store).getPort();
  } catch (const std::exception& error) {
    fail(ErrorKind::io, "launch", "cannot host the store where the ranks meet: {}", error.what());
  }
}

StoreHost::~StoreHost() = default;

std::uint16_t StoreHost::port() const { return state_->port; }

int usable_gpus() { return static_cast<int>(torch::cuda::device_count()); }

}  // namespace lockstep::cluster
