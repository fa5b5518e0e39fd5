// The place where launchers meet with `--rdzv_backend etcd`: one of them runs the service under a lease, its state is
// in etcd, and another one goes on with it when that launcher is lost.
#pragma once

#include <lockstep/cluster/elastic/node_rendezvous.h>
#include <lockstep/cluster/etcd/client.h>

#include <chrono>
#include <map>
#include <string>

namespace lockstep::cluster::elastic {

struct EtcdOptions {
  etcd::Address address;
  std::string job;  ///< the keys lie under /lockstep/<job>/
  /// The time limit of one call. Servers may restart meanwhile: a call then takes longer and succeeds within the limit.
  std::chrono::milliseconds timeout{60'000};
  /// etcd deletes the state of a job when no launcher of this job used it for this long. At least a second.
  std::chrono::seconds lease{600};
};

/// `endpoint` is HOST[:PORT], or several of them with commas; the port defaults to 2379. `job` is --rdzv_id. `conf`
/// holds the values of --rdzv_conf for this backend: protocol, ssl_cert, ssl_cert_key, ca_cert, lease.
/// Error(invalid_argument) for values that are not valid.
EtcdOptions etcd_options(const std::string& endpoint, const std::string& job,
                         const std::map<std::string, std::string>& conf);

/// The server of etcd that answers first. Error(timeout) when none does in time, Error(io) for one that is no etcd.
etcd::HttpServer find_server(const EtcdOptions& options);

/// The rendezvous of a job at etcd. Other launchers reach this one at `address`, if it runs the service, which
/// then listens on the addresses `listen_on` of this host (empty: on all). `lease` is the time after which etcd notices
/// that the launcher that runs it is lost.
///
/// Which launcher runs the service: the one that created the key "service", which is bound to a lease that the launcher
/// keeps alive. Each change of the state is one transaction with the condition that this key is still the same one: so
/// a launcher that was suspended, or that etcd did not hear, cannot change anything after another one has taken over.
/// That key also holds a random secret of the service: who may read this etcd may join the job.
NodeRendezvous open_etcd(const EtcdOptions& options, const std::string& address,
                         const std::vector<std::string>& listen_on, std::chrono::seconds lease);

}  // namespace lockstep::cluster::elastic
