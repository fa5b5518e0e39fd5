// c10d's store interface over the client of Lockstep's own store, and TCPStore clients that connect in time.
#include <lockstep/base/detached_call.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/compat/libtorch.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace lockstep::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using store::MessageReader;
using store::MessageWriter;
using store::Operation;

std::string_view view_of(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

MessageWriter key_alone(const std::string& key) { return MessageWriter().text(key); }

std::uint64_t number_of(const std::string& result) { return MessageReader(result).number(); }
std::vector<std::uint8_t> value_in(const std::string& result) {
  const auto text = MessageReader(result).text();
  return {text.begin(), text.end()};
}

}  // namespace

OwnStore::OwnStore(StorePlace place, milliseconds timeout, std::shared_ptr<const store::Server> server)
    : Store(timeout),
      place_(std::move(place)),
      server_(std::move(server)),
      client_(place_.host, place_.port, place_.credentials, Clock::now() + timeout) {}

std::string OwnStore::ask(Operation operation, const MessageWriter& fields, milliseconds timeout) {
  const auto deadline = timeout == kNoTimeout ? std::nullopt : std::optional(Clock::now() + timeout);
  return client_.ask(operation, fields, deadline);
}

std::string OwnStore::ask(Operation operation, const MessageWriter& fields) {
  return ask(operation, fields, getTimeout());
}

void OwnStore::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  ask(Operation::set, key_alone(key).text(view_of(value)));
}

std::vector<std::uint8_t> OwnStore::compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                               const std::vector<std::uint8_t>& desired) {
  return value_in(ask(Operation::compare_set, key_alone(key).text(view_of(expected)).text(view_of(desired))));
}

std::vector<std::uint8_t> OwnStore::get(const std::string& key) {
  return value_in(ask(Operation::get, key_alone(key)));
}

std::int64_t OwnStore::add(const std::string& key, std::int64_t value) {
  const auto sum = ask(Operation::add, key_alone(key).number(static_cast<std::uint64_t>(value)));
  return static_cast<std::int64_t>(number_of(sum));
}

bool OwnStore::deleteKey(const std::string& key) { return number_of(ask(Operation::remove, key_alone(key))) != 0; }

bool OwnStore::check(const std::vector<std::string>& keys) {
  return number_of(ask(Operation::check, MessageWriter().keys(keys))) != 0;
}

std::int64_t OwnStore::getNumKeys() { return static_cast<std::int64_t>(number_of(ask(Operation::count, {}))); }

void OwnStore::wait(const std::vector<std::string>& keys) { wait(keys, getTimeout()); }

void OwnStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  ask(Operation::wait, MessageWriter().keys(keys), timeout);
}

c10::intrusive_ptr<c10d::Store> OwnStore::clone() {
  return c10::make_intrusive<OwnStore>(place_, getTimeout(), server_);
}

OwnStorePtr join_own_store(const StorePlace& place, milliseconds timeout) {
  return c10::make_intrusive<OwnStore>(place, timeout);
}

OwnStorePtr host_own_store(StorePlace place, std::vector<std::string> addresses, milliseconds timeout) {
  store::StoreServerOptions options;
  options.addresses = std::move(addresses);
  options.port = place.port;
  options.secret = place.credentials.secret;
  options.tls = place.credentials.tls;
  const auto server = std::make_shared<const store::Server>(std::move(options));
  place.port = server->port();
  return c10::make_intrusive<OwnStore>(std::move(place), timeout, server);
}

namespace {

// The listening process may not be a store, and may never reply. A thread that is left behind ends with its connection.
StorePtr make_client_in_time(const std::string& host, const c10d::TCPStoreOptions& options) {
  const auto limit = options.timeout + std::chrono::seconds(2);  // c10d reports more
  const auto store =
      call_within(limit, [host, options]() -> StorePtr { return c10::make_intrusive<c10d::TCPStore>(host, options); });
  if (!store) {
    throw std::runtime_error(
        "the process that listens there sends nothing: it is not a store, or the process that holds the store (rank 0 "
        "or a launcher) hangs");
  }
  return *store;
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
