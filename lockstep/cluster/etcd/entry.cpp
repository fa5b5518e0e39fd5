#include <lockstep/base/error.h>
#include <lockstep/cluster/etcd/entry.h>
#include <lockstep/cluster/etcd/messages.h>

#include <utility>

namespace lockstep::cluster::etcd {
namespace {

using nlohmann::json;

constexpr const char* kTxn = "/v3/kv/txn";

}  // namespace

Entry::Entry(const Address& address, std::string key) : key_(std::move(key)), client_(address) {}

std::optional<std::string> Entry::read(std::chrono::milliseconds limit) {
  return value_of(entry_in_txn(ask(kTxn, txn(json::array({find_in_txn(key_)})), limit), 0));
}

void Entry::write(const std::string& value, std::chrono::milliseconds limit) {
  constexpr const char* kNoLease = "0";
  ask(kTxn, txn(json::array({put_in_txn(key_, value, kNoLease)})), limit);
}

std::string Entry::describe() const { return fmt::format("{} in the {}", key_, client_.describe()); }

json Entry::ask(const std::string& path, const json& request, std::chrono::milliseconds limit) {
  auto answer = client_.call(path, request, std::chrono::steady_clock::now() + limit);
  if (!answer.refusal.empty()) fail(ErrorKind::io, "etcd", "{} is refused: {}", describe(), answer.refusal);
  return std::move(answer.body);
}

}  // namespace lockstep::cluster::etcd
