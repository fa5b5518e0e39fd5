// The store of `--rdzv_backend etcd`, and its options: no launcher holds it, so the job outlives each of them.
#pragma once

#include <lockstep/cluster/elastic/key_value_store.h>
#include <lockstep/cluster/etcd/client.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

namespace lockstep::cluster::elastic {

struct EtcdStoreOptions {
  etcd::Address address;
  std::string job;  ///< the keys lie under /lockstep/<job>/
  /// The time limit of one call. Servers may restart meanwhile: a call then takes longer and succeeds within the limit.
  std::chrono::milliseconds timeout{60'000};
  /// etcd deletes the keys of a job when no store of this job was used for this long. At least a second.
  std::chrono::seconds lease{600};
};

/// The store of `--rdzv_backend etcd`.
class EtcdStore final : public KeyValueStore {
 public:
  /// Waits until etcd answers. Error(timeout) or Error(io), as every call.
  explicit EtcdStore(const EtcdStoreOptions& options);

  std::optional<std::string> get(const std::string& key) override;
  std::vector<std::optional<std::string>> get_all(const std::vector<std::string>& keys) override;
  void set(const std::string& key, const std::string& value) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  bool replace(const std::string& key, const std::optional<std::string>& expected, const std::string& value) override;
  std::string describe() const override;

  /// The server that is in use, among several.
  etcd::HttpServer server();

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  class Turn;

  std::string full(const std::string& key) const;
  /// Sends a request, keeps the lease alive, and grants it again when it has expired.
  etcd::EtcdAnswer ask(const std::string& path, const nlohmann::json& request, Deadline deadline);
  void keep_lease(Deadline deadline);
  void grant_lease(Deadline deadline);

  const EtcdStoreOptions options_;
  const std::string prefix_;
  const std::string lease_;   ///< the number of the lease, the same in all stores of a job
  const std::string ticket_;  ///< a key of this store alone, which holds the result of its last `add`
  std::mutex mutex_;          ///< guards busy_
  std::condition_variable turn_over_;
  bool busy_ = false;  ///< a call is in progress, and only that call uses the members below
  etcd::Client client_;
  std::int64_t adds_ = 0;
  Deadline lease_used_{};
};

/// `endpoint` is HOST[:PORT], or several of them with commas; the port defaults to 2379. `job` is --rdzv_id. `conf`
/// holds the values of --rdzv_conf for this backend: protocol, ssl_cert, ssl_cert_key, ca_cert, lease.
/// Error(invalid_argument) for values that are not valid.
EtcdStoreOptions etcd_options(const std::string& endpoint, const std::string& job,
                              const std::map<std::string, std::string>& conf);

}  // namespace lockstep::cluster::elastic
