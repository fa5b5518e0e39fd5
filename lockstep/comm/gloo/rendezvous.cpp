// The connection of ProcessGroupGloo, with a second thread that ends its waits when a rank is lost or a deadline
// passes.
#include <lockstep/comm/gloo/rendezvous.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/gloo/device.h>
#include <lockstep/comm/gloo/states.h>
#include <lockstep/comm/gloo/without_sigpipe.h>
#include <lockstep/compat/libtorch.h>

#include <fmt/format.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::detail::gloo {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The pause between two requests of one rank: whether a rank is lost, and whether an address is available. All ranks
// send requests to the same store, so the pause grows with their number: a thousand ranks send some thousand requests
// per second together.
constexpr milliseconds kFirstPause(50);
milliseconds longest_pause(int ranks) { return std::max(milliseconds(400), milliseconds(ranks)); }
milliseconds longest_pause_for_address(int ranks) { return std::max(milliseconds(50), milliseconds(ranks / 2)); }

// Gloo ends a process that receives a connection which it has just closed. So a rank to which others may connect gives
// up only after the others have had time to receive the loss report, after which they start no new connection.
milliseconds grace(int ranks) { return longest_pause(ranks) + milliseconds(250); }

// The shared state of the rank that connects and the thread that watches it.
class MeshStart {
 public:
  /// Gloo has created its side of the connections, and its address is published next.
  void announce() {
    const std::lock_guard lock(mutex_);
    if (lost_) throw Error(*lost_);
    announced_ = true;
  }

  void keep(std::shared_ptr<::gloo::transport::Context> connections) {
    const std::lock_guard lock(mutex_);
    connections_ = std::move(connections);
  }

  /// After this call this rank starts no new connection. Returns whether other ranks may be about to connect to it.
  bool lose(const Error& reason) {
    const std::lock_guard lock(mutex_);
    lost_ = reason;
    given_up_ = !announced_;
    return announced_;
  }

  /// Throws the reason of the loss, once no rank is about to connect any more.
  void throw_if_lost() {
    std::unique_lock lock(mutex_);
    if (!lost_) return;
    changed_.wait(lock, [this] { return given_up_; });
    throw Error(*lost_);
  }

  std::optional<Error> lost() {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

  void end() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

  /// Whether the rendezvous ends within `pause`.
  bool ends_within(milliseconds pause) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, pause, [this] { return over_; });
  }

  void give_up() {
    std::shared_ptr<::gloo::transport::Context> connections;
    {
      const std::lock_guard lock(mutex_);
      given_up_ = true;
      connections = connections_;
    }
    changed_.notify_all();
    if (!connections) return;
    try {
      // See ClosableGloo::close.
      std::byte nothing{};
      const auto buffer = connections->createUnboundBuffer(&nothing, sizeof(nothing));
      buffer->waitRecv(nullptr, milliseconds(1));
    } catch (const std::exception&) {
      // Expected.
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<::gloo::transport::Context> connections_;
  std::optional<Error> lost_;
  bool announced_ = false;
  bool given_up_ = false;
  bool over_ = false;
};

// Waits by polling, so that the watching thread can also send requests to this store, and end the wait.
class WatchedStore : public compat::PlainPrefixStore {
 public:
  WatchedStore(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<MeshStart> rendezvous, int ranks)
      : PlainPrefixStore("gloo", std::move(store)),
        rendezvous_(std::move(rendezvous)),
        longest_pause_(longest_pause_for_address(ranks)) {}

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    rendezvous_->announce();
    PrefixStore::set(key, value);
  }

  void wait(const std::vector<std::string>& keys) override { wait(keys, getTimeout()); }

  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    const auto deadline = Clock::now() + timeout;
    for (milliseconds pause(1); !check(keys); pause = std::min(pause * 2, longest_pause_)) {
      rendezvous_->throw_if_lost();
      if (Clock::now() >= deadline) throw Error(ErrorKind::timeout, "gloo", "Timed out waiting for an address");
      std::this_thread::sleep_for(pause);
    }
    rendezvous_->throw_if_lost();
  }

 private:
  std::shared_ptr<MeshStart> rendezvous_;
  milliseconds longest_pause_;
};

// Passes Gloo's connections to MeshStart before Gloo has made them.
class WatchedDevice : public ::gloo::transport::Device {
 public:
  WatchedDevice(std::shared_ptr<::gloo::transport::Device> device, std::shared_ptr<MeshStart> rendezvous)
      : device_(std::move(device)), rendezvous_(std::move(rendezvous)) {}

  std::string str() const override { return device_->str(); }
  const std::string& getPCIBusID() const override { return device_->getPCIBusID(); }
  int getInterfaceSpeed() const override { return device_->getInterfaceSpeed(); }
  bool hasGPUDirect() const override { return device_->hasGPUDirect(); }

  std::shared_ptr<::gloo::transport::Context> createContext(int rank, int size) override {
    auto connections = device_->createContext(rank, size);
    rendezvous_->keep(connections);
    return connections;
  }

 private:
  std::shared_ptr<::gloo::transport::Device> device_;
  std::shared_ptr<MeshStart> rendezvous_;
};

void watch(MeshStart& rendezvous, const BackendContext& context) {
  std::vector<int> others;
  for (int rank = 0; rank < context.size; ++rank) {
    if (rank != context.rank) others.push_back(rank);
  }
  const auto longest = longest_pause(context.size);
  const auto deadline = Clock::now() + context.start_timeout;
  for (auto pause = kFirstPause; !rendezvous.ends_within(pause); pause = std::min(pause * 2, longest)) {
    try {
      context.while_connecting(others);
      // Gloo itself waits five times as long for a rank that has published its address but connects to no rank.
      if (Clock::now() >= deadline) {
        throw Error(ErrorKind::timeout, "gloo",
                    fmt::format("the ranks did not all connect within {} ms", context.start_timeout.count()));
      }
    } catch (const Error& reason) {
      // Before it has announced its address, this rank waits only for the store.
      if (rendezvous.lose(reason) && !rendezvous.ends_within(grace(context.size))) rendezvous.give_up();
      return;
    }
  }
}

// While it exists, a thread watches for lost ranks.
class LossWatcher {
 public:
  LossWatcher(MeshStart& rendezvous, const BackendContext& context) : rendezvous_(rendezvous) {
    if (context.while_connecting) thread_ = std::thread([&rendezvous, &context] { watch(rendezvous, context); });
  }
  LossWatcher(const LossWatcher&) = delete;
  LossWatcher& operator=(const LossWatcher&) = delete;
  ~LossWatcher() {
    rendezvous_.end();
    if (thread_.joinable()) thread_.join();
    rendezvous_.keep(nullptr);
  }

 private:
  MeshStart& rendezvous_;
  std::thread thread_;
};

}  // namespace

c10::intrusive_ptr<ClosableGloo> meet(const BackendContext& context) {
  const WithoutSigpipe guard;                             // all threads inherit it
  const auto rendezvous = std::make_shared<MeshStart>();  // the group keeps the store
  const LossWatcher watcher(*rendezvous, context);
  auto options = c10d::ProcessGroupGloo::Options::create(context.start_timeout);
  options->devices.push_back(std::make_shared<WatchedDevice>(make_device(context), rendezvous));
  try {
    return c10::make_intrusive<ClosableGloo>(c10::make_intrusive<WatchedStore>(context.store, rendezvous, context.size),
                                             context.rank, context.size, options);
  } catch (const std::exception& error) {
    if (const auto lost = rendezvous->lost()) throw *lost;
    throw as_error(error);
  }
}

}  // namespace lockstep::detail::gloo
