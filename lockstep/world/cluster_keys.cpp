#include <lockstep/world/cluster_settings.h>

namespace lockstep {

void describe(ConfigFields& fields, ClusterOptions& c) {
  fields.field("role", c.role, one_of({"MS_SCHED", "MS_WORKER"}), "MS_ROLE: what this process is; null: no scheduler");
  fields.field("worker_num", c.worker_num, between(1, 1 << 20), "MS_WORKER_NUM: workers of the whole job");
  fields.field("server_num", c.server_num, at_least(0), "MS_SERVER_NUM: parameter servers, which have no part in this");
  fields.field("sched_host", c.sched_host, anything(), "MS_SCHED_HOST: the scheduler's address");
  fields.field("sched_port", c.sched_port, between(1024, 65535), "MS_SCHED_PORT: the scheduler's port");
  fields.field("node_id", c.node_id, anything(), "MS_NODE_ID: a worker's own name; null: a random one");
  fields.field("enable_recovery", c.enable_recovery, anything(),
               "MS_ENABLE_RECOVERY: the scheduler keeps the job's state, and lost workers may be replaced");
  fields.field("recovery_path", c.recovery_path, anything(),
               "MS_RECOVERY_PATH: the folder of that state, or etcd://HOST:PORT/KEY");
  fields.field("node_timeout_s", c.node_timeout_s, between(1, 1e6),
               "MS_NODE_TIMEOUT: seconds of silence after which a worker is lost");
  fields.field("topo_timeout_s", c.topo_timeout_s, between(1, 1e6),
               "MS_TOPO_TIMEOUT: seconds the scheduler waits for workers that do not come");
  fields.field("hang_timeout_s", c.hang_timeout_s, between(1, 1e6),
               "seconds after which a worker hangs that has not noticed that the others cannot go on");
  fields.field("enable_ssl", c.enable_ssl, anything(), "TLS between workers and scheduler, each with a certificate");
  fields.field("config_file_path", c.config_file_path, anything(), "JSON file that names the certificates");
  fields.field("server_password", c.server_password, hidden(), "of the scheduler's .p12 file");
  fields.field("client_password", c.client_password, hidden(), "of the workers' .p12 file");
  fields.field("server_password_file", c.server_password_file, anything(), "a file with that password instead");
  fields.field("client_password_file", c.client_password_file, anything(), "a file with that password instead");
  fields.field("secret_file", c.secret_file, anything(), "a file with a secret that all processes of the job share");
  fields.field("allow_insecure", c.allow_insecure, anything(),
               "let the scheduler be reached from other machines without TLS");
}

}  // namespace lockstep
