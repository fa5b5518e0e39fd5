// Options of `lockstep run --rdzv_backend etcd`: its servers, the protocol, TLS files and the job's keys.
#pragma once

#include <lockstep/cluster/elastic/etcd_store.h>

#include <map>
#include <string>

namespace lockstep::cluster::elastic {

/// `endpoint` is HOST[:PORT], or several of them with commas; the port defaults to 2379. `job` is --rdzv_id. `conf`
/// holds what --rdzv_conf says for this backend: protocol, ssl_cert, ssl_cert_key, ca_cert, lease.
/// Error(invalid_argument) for values that are not valid.
EtcdStoreOptions etcd_options(const std::string& endpoint, const std::string& job,
                              const std::map<std::string, std::string>& conf);

}  // namespace lockstep::cluster::elastic
