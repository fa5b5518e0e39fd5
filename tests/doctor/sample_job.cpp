#include "doctor/sample_job.h"

#include <fmt/format.h>

namespace lockstep::test {

doctor::Facts sound_host(int rank) {
  doctor::Facts facts;
  facts.rank = rank;
  facts.host = fmt::format("node-{}", static_cast<char>('a' + rank));
  facts.identity = fmt::format("machine {}", rank);
  facts.network = facts.identity;
  facts.way_in = fmt::format("rank {} of 2", rank);
  facts.lockstep = "0.1.0";
  facts.libtorch = "1.13.1";
  facts.address = fmt::format("10.0.0.{}", rank + 1);
  facts.address_why = "the route to the master, node-a";
  facts.probe_server = 40000;
  facts.interfaces = {{"lo", "127.0.0.1", true}, {"eth0", facts.address, false}};
  facts.names = {{facts.host, {facts.address}, 1}};
  facts.shm_bytes = std::uint64_t{8} << 30;
  facts.open_files = 65536;
  facts.open_files_hard = 65536;
  facts.cpus = 8;
  facts.named_files = {{"this program", std::string(64, 'c')}};
  facts.files = {{"run.yaml", std::string(64, 'a')}};
  return facts;
}

doctor::JobFacts sound_job() {
  doctor::JobFacts job;
  job.size = 2;
  job.master = "node-a";
  job.ranks = {sound_host(0), sound_host(1)};
  job.links = {{0, 1, "10.0.0.2:40000"}, {1, 0, "10.0.0.1:40000"}};
  job.names = {{0, {"node-a", {"10.0.0.1"}}}, {1, {"node-a", {"10.0.0.1"}}}};
  return job;
}

doctor::JobFacts sound_process() {
  doctor::JobFacts job;
  job.ranks = {sound_host(0)};
  return job;
}

}  // namespace lockstep::test
