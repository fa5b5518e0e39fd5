// The checks, each on a job in good health that one thing was done to.
#include "doctor/sample_job.h"

#include <lockstep/doctor/checks.h>
#include <lockstep/doctor/links.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace lockstep::test {
namespace {

using namespace doctor;
using testing::HasSubstr;

struct Case {
  std::string what;  // is spoilt
  std::function<void(JobFacts&)> spoil;
  std::string finding;               // "severity check where"; empty: none at all
  std::vector<std::string> words{};  // in what it says or in the fix
};

void expect_cases(const JobFacts& sound, const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    JobFacts job = sound;
    one.spoil(job);
    const auto findings = examine(job);
    ASSERT_EQ(findings.size(), one.finding.empty() ? 0u : 1u) << (findings.empty() ? "" : findings.back().what);
    if (findings.empty()) continue;
    const Finding& found = findings.front();
    EXPECT_EQ(std::string(name(found.severity)) + " " + found.check + " " + found.where, one.finding);
    for (const auto& word : one.words) EXPECT_THAT(found.what + " | " + found.fix, HasSubstr(word));
    EXPECT_NE(found.fix, "");
  }
}

TEST(DoctorChecks, GoodHealth) {
  expect_cases(sound_job(), {{"nothing", [](JobFacts&) {}, ""}});
  expect_cases(sound_process(), {{"nothing", [](JobFacts&) {}, ""}});
}

// "The program waits for ever": in a cluster, in a container, and with virtual interfaces.

TEST(DoctorChecks, Rendezvous) {
  const auto where = "error rendezvous host node-a (rank 1) -> rank 0";
  const auto say = [](const std::string& why) {
    return [why](JobFacts& job) {
      job.size = 2;
      job.master = "node-b";
      job.ranks[0].rank = 1;
      job.unmet = "cannot connect to node-b:9988, where the ranks meet: " + why;
    };
  };
  expect_cases(
      sound_process(),
      {{"no program", say("Connection refused"), where, {"node-b:9988", "start rank 0", "--net=host", "-p"}},
       {"a firewall", say("Connection timed out"), where, {"packets are dropped", "firewalls", "node-b is an address"}},
       {"no route", say("No route to host"), where, {"ip route get node-b"}},
       {"no name", say("the name does not resolve: Name or service not known"), where, {"/etc/hosts", "MASTER_ADDR"}},
       {"who knows", say("Broken pipe"), where, {"rank 0 was started and still runs"}},
       {"the port says it",
        [&](JobFacts& job) {
          say("Address already in use")(job);
          job.ranks[0].rank = 0;
          job.ranks[0].port = Port{9988, "taken by python3 (pid 12)"};
        },
        "error port host node-a (rank 0)"}});
}

TEST(DoctorChecks, AVariableThatBreaksItsRuleEndsEveryJob) {
  const auto spoil = [](JobFacts& job) {
    job.ranks[0].environment = "GLOO_SOCKET_IFNAME=\"eth7\" fits no network interface";
  };
  expect_cases(sound_job(), {{"an interface",
                              spoil,
                              "error environment host node-a (rank 0)",
                              {"GLOO_SOCKET_IFNAME=\"eth7\" fits no", "unset it"}},
                             {"and so ranks do not meet",
                              [&](JobFacts& job) {
                                spoil(job);
                                job.unmet = "GLOO_SOCKET_IFNAME=\"eth7\" fits no network interface";
                              },
                              "error environment host node-a (rank 0)"}});
  expect_cases(sound_process(), {{"one alone", spoil, "error environment host node-a", {"unset it"}}});
}

TEST(DoctorChecks, PortsAndPresence) {
  expect_cases(sound_job(), {{"the port is taken",
                              [](JobFacts& job) {
                                job.ranks[0].port = Port{9988, "taken by python3 (pid 12)"};
                              },
                              "error port host node-a (rank 0)",
                              {"port 9988", "taken by python3 (pid 12)", "MASTER_PORT", "ctrl_port"}},
                             {"the port is free", [](JobFacts& job) { job.ranks[0].port = Port{9988}; }, ""},
                             {"a rank is absent",
                              [](JobFacts& job) {
                                job.ranks.pop_back();
                                job.links.clear();
                                job.names.clear();
                                job.missing = {1};
                              },
                              "error presence rank 1",
                              {"1 of 2 ranks did not reach the rendezvous", "at node-a", "it was not started"}},
                             {"two ranks are absent",
                              [](JobFacts& job) {
                                job.missing = {2, 3};
                              },
                              "error presence ranks 2, 3",
                              {"they"}}});
}

TEST(DoctorChecks, Versions) {
  const auto where = "error versions host node-a (rank 0) -> host node-b (rank 1)";
  expect_cases(
      sound_job(),
      {{"Lockstep",
        [](JobFacts& job) { job.ranks[1].lockstep = "0.2.0"; },
        where,
        {"Lockstep is 0.1.0 on host node-a and 0.2.0 on host node-b", "same build"}},
       {"libtorch", [](JobFacts& job) { job.ranks[1].libtorch = "2.1.0"; }, where, {"libtorch is 1.13.1", "2.1.0"}},
       {"a file",
        [](JobFacts& job) { job.ranks[1].files["run.yaml"] = std::string(64, 'b'); },
        where,
        {"run.yaml is not the same", "aaaaaaaaaaaa...", "bbbbbbbbbbbb...", "copy it"}},
       {"the program",
        [](JobFacts& job) { job.ranks[1].named_files["this program"] = std::string(64, 'b'); },
        "warning versions host node-a (rank 0) -> host node-b (rank 1)",
        {"this program is not the same on hosts node-a (SHA-256 cccccccccccc...)"}},
       {"no file",
        [](JobFacts& job) { job.ranks[1].files["run.yaml"] = ""; },
        "error versions host node-b (rank 1)",
        {"run.yaml cannot be read on host node-b"}}});
}

TEST(DoctorChecks, ContainersInOneNetworkReachEachOtherAtAnyAddress) {
  JobFacts job = sound_job();
  for (Facts& rank : job.ranks) rank.address = "127.0.0.1";
  EXPECT_EQ(check_addresses(job).size(), 2u);
  for (Facts& rank : job.ranks) rank.network = "one";
  EXPECT_TRUE(check_addresses(job).empty());
}

TEST(DoctorChecks, VersionsOfEachRank) {
  JobFacts job = sound_job();
  for (int rank = 2; rank < 4; ++rank) {  // on the second host
    job.ranks.push_back(job.ranks[1]);
    job.ranks.back().rank = rank;
    job.ranks.back().lockstep = "0.2.0";
  }
  const auto findings = check_versions(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].where, "host node-a (rank 0) -> host node-b (rank 2)");
}

TEST(DoctorChecks, Proxies) {
  const auto spoil = [](JobFacts& job) {
    job.ranks[1].proxies = {{"http_proxy", "http://proxy:3128"}};
    job.ranks[1].no_proxy = "localhost";
  };
  expect_cases(sound_job(), {{"a proxy",
                              spoil,
                              "warning proxies host node-b (rank 1)",
                              {"http_proxy=http://proxy:3128", "no_proxy=localhost", "etcd", "unset"}}});
}

TEST(DoctorChecks, Containers) {
  const auto enter = [](const std::string& address) {
    return [address](JobFacts& job) {
      Facts& host = job.ranks[0];
      host.in_container = true;
      host.address = address;
      host.interfaces[1].address = address;
    };
  };
  expect_cases(
      sound_process(),
      {{"its own network", enter("172.17.0.2"), "warning containers host node-a", {"172.17.0.2", "--net=host", "-p"}},
       {"the hosts' network", enter("10.0.0.1"), "note containers host node-a", {"with the address 10.0.0.1"}}});
}

TEST(DoctorChecks, AContainerThatCannotBeReached) {
  JobFacts job = sound_job();
  job.ranks[1].in_container = true;
  job.links[0].problem = "Connection refused";
  auto findings = check_links(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].fix, testing::AllOf(HasSubstr("firewall"), HasSubstr("--net=host")));
  // In a network that Docker made.
  job.ranks[1].interfaces = {{"eth0", "172.17.0.2"}};
  job.ranks[1].address = "172.17.0.2";
  findings = check_links(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].fix,
              testing::AllOf(HasSubstr("host node-b (rank 1) runs in a container"), HasSubstr("--net=host")));
}

TEST(DoctorChecks, VirtualInterfaces) {
  const auto choose_docker = [](JobFacts& job) {
    job.ranks[1].interfaces.push_back({"docker0", "172.17.0.1"});
    job.ranks[1].address = "172.17.0.1";
    job.ranks[1].address_why = "being the first interface that is up";
  };
  expect_cases(sound_job(),
               {{"one is there",
                 [](JobFacts& job) {
                   job.ranks[1].interfaces.push_back({"virbr0", "192.168.122.1"});
                 },
                 "note interfaces host node-b (rank 1)",
                 {"(virbr0), which are not used", "NCCL_SOCKET_IFNAME"}},
                {"one is taken",
                 choose_docker,
                 "warning interfaces host node-b (rank 1)",
                 {"172.17.0.1 of docker0", "first interface", "LOCKSTEP_SOCKET_IFNAME", "there: eth0 (10.0.0.2)"}}});
  for (const auto* name : {"docker0", "veth12ab", "virbr0", "br-1234", "cni0", "flannel.1", "cali99", "vboxnet0"}) {
    EXPECT_TRUE(is_virtual_interface(name)) << name;
  }
  for (const auto* name : {"eth0", "eno1", "enp3s0", "ib0", "bond0", "wlan0", "lo", "br0"}) {
    EXPECT_FALSE(is_virtual_interface(name)) << name;
  }
}

TEST(DoctorChecks, Links) {
  const auto where = "error links host node-a (rank 0) -> host node-b (rank 1)";
  const auto refuse = [](JobFacts& job) { job.links[0].problem = "Connection refused"; };
  const auto refuse_named = [](JobFacts& job) {
    job.links[0].problem = "no answer";
    job.ranks[1].address_named = true;
    job.ranks[1].address_why = "LOCKSTEP_SOCKET_IFNAME=eth0";
    job.ranks[1].interfaces.push_back({"eth1", "10.1.0.2"});
  };
  expect_cases(
      sound_job(),
      {{"one way",
        refuse,
        where,
        {"host node-a cannot connect to host node-b at 10.0.0.2 (eth0): Connection refused",
         "The other direction works", "firewall", "ip route get 10.0.0.2"}},
       {"an interface that was named",
        refuse_named,
        where,
        {"that of LOCKSTEP_SOCKET_IFNAME=eth0; set LOCKSTEP_SOCKET_IFNAME on host node-b", "eth1 (10.1.0.2)"}}});
}

// Containers are everywhere, and mostly not to blame: --net=host is for those that nobody can reach.
TEST(DoctorChecks, LinksThatLosePackets) {
  const auto where = "error links host node-a (rank 0) -> host node-b (rank 1)";
  const auto lose = [](JobFacts& job) {
    job.links[0].problem = std::string(kNoAnswer) + ": packets are dropped on the way";
  };
  const std::vector<std::string> firewall = {"from host node-a to host node-b",
                                             "nft list ruleset",
                                             "security group",
                                             "open all TCP ports both ways",
                                             "ip route get 10.0.0.2` on host node-a",
                                             "ip route get 10.0.0.1` on host node-b"};
  expect_cases(sound_job(), {{"one way", lose, where, firewall}});
  JobFacts contained = sound_job();
  for (Facts& rank : contained.ranks) rank.in_container = true;
  lose(contained);
  const auto found = check_links(contained);
  ASSERT_EQ(found.size(), 1U);
  for (const auto& words : firewall) EXPECT_THAT(found[0].fix, HasSubstr(words));
  EXPECT_LT(found[0].fix.find("firewall"), found[0].fix.find("--net=host"));
}

TEST(DoctorChecks, Addresses) {
  const auto give = [](const std::string& address) {
    return [address](JobFacts& job) { job.ranks[0].address = address; };
  };
  expect_cases(sound_job(), {{"Debian's own line in /etc/hosts",
                              give("127.0.1.1"),
                              "error addresses host node-a (rank 0)",
                              {"offers 127.0.1.1", "each host reaches itself", "/etc/hosts", "there: eth0 (10.0.0.1)"}},
                             {"none", give(""), "error addresses host node-a (rank 0)", {"no address to offer"}},
                             {"another's",
                              give("10.0.0.2"),
                              "error addresses host node-a (rank 0) -> host node-b (rank 1)",
                              {"both offer 10.0.0.2", "--net=host"}}});
  // Where all share one host that is as it should be.
  JobFacts job = sound_job();
  for (Facts& rank : job.ranks) {
    rank.identity = "one machine";
    rank.address = "127.0.0.1";
  }
  job.links.clear();
  EXPECT_EQ(examine(job), std::vector<Finding>{});
}

TEST(DoctorChecks, Names) {
  expect_cases(sound_job(), {{"the master is unknown",
                              [](JobFacts& job) { job.ranks[1].names.push_back({"node-a"}); },
                              "error names host node-b (rank 1)",
                              {"the master's name node-a does not resolve on host node-b", "MASTER_ADDR"}},
                             {"unknown to itself",
                              [](JobFacts& job) { job.ranks[1].names[0].addresses.clear(); },
                              "warning names host node-b (rank 1)",
                              {"its own name node-b does not resolve"}},
                             {"itself",
                              [](JobFacts& job) { job.ranks[1].names[0].addresses = {"127.0.1.1"}; },
                              "warning names host node-b (rank 1)",
                              {"node-b resolves to 127.0.1.1", "/etc/hosts"}},
                             {"slow",
                              [](JobFacts& job) { job.ranks[1].names[0].milliseconds = 5010; },
                              "warning names host node-b (rank 1)",
                              {"looking up node-b took 5.0 s", "/etc/resolv.conf"}},
                             {"the master means two hosts",
                              [](JobFacts& job) { job.names[1].name.addresses = {"10.9.0.1"}; },
                              "error names host node-a (rank 0) -> host node-b (rank 1)",
                              {"node-a resolves to 10.0.0.1 on host node-a and to 10.9.0.1 on host node-b"}},
                             {"another name means two hosts",
                              [](JobFacts& job) {
                                job.master = "10.0.0.1";
                                job.names[1].name.addresses = {"10.9.0.1"};
                              },
                              "warning names host node-a (rank 0) -> host node-b (rank 1)",
                              {"numeric addresses"}},
                             {"another order",
                              [](JobFacts& job) {
                                job.names[0].name.addresses = {"10.0.0.1", "::5"};
                                job.names[1].name.addresses = {"::5", "10.0.0.1"};
                              },
                              ""}});
}

TEST(DoctorChecks, Clocks) {
  const auto shift = [](double ahead, double uncertainty) {
    return [=](JobFacts& job) {
      job.links[0].clock_ahead = ahead;
      job.links[0].clock_uncertainty = uncertainty;
    };
  };
  const auto where = "warning clocks host node-a (rank 0) -> host node-b (rank 1)";
  expect_cases(sound_job(),
               {{"ahead", shift(61.2, 0.01), where, {"host node-b is 61.2 s ahead of that of host node-a"}},
                {"behind", shift(-2, 0.01), where, {"2.0 s behind", "NTP"}},
                {"a little", shift(0.9, 0.01), ""},
                {"who knows", shift(2, 1.5), ""}});
}

TEST(DoctorChecks, Limits) {
  expect_cases(sound_job(), {{"few files",
                              [](JobFacts& job) { job.ranks[0].open_files = 64; },
                              "error open_files host node-a (rank 0)",
                              {"may open 64 files; 2 ranks need about 196", "ulimit -n 65536"}},
                             {"few files for good",
                              [](JobFacts& job) {
                                job.ranks[0].open_files = 64;
                                job.ranks[0].open_files_hard = 64;
                              },
                              "error open_files host node-a (rank 0)",
                              {"LimitNOFILE"}},
                             {"Docker's /dev/shm",
                              [](JobFacts& job) { job.ranks[0].shm_bytes = 64 << 20; },
                              "warning shared_memory host node-a (rank 0)",
                              {"/dev/shm has 64 MiB", "--shm-size"}},
                             {"no memfd",
                              [](JobFacts& job) { job.ranks[0].memfd_problem = "Operation not permitted"; },
                              "error shared_memory host node-a (rank 0)",
                              {"Operation not permitted", "LOCKSTEP_BACKEND=tcp"}},
                             {"many threads",
                              [](JobFacts& job) { job.ranks[0].omp_threads = 9; },
                              "warning cpus host node-a (rank 0)",
                              {"1 rank of 9 threads share 8 CPUs", "OMP_NUM_THREADS"}}});
}

TEST(DoctorChecks, RanksOfAHostShareItsCpus) {
  JobFacts job = sound_job();
  for (Facts& rank : job.ranks) {
    rank.identity = "one machine";
    rank.cpus = 1;
  }
  job.links.clear();
  const auto findings = check_cpus(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].what, "2 ranks of 1 thread share 1 CPU");
}

Gpus eight_h200() {
  Gpus gpus;
  gpus.driver = "580.65.06";
  gpus.models.assign(8, "NVIDIA H200");
  gpus.runtime = "13.0";
  gpus.devices = 8;
  return gpus;
}

JobFacts job_on_gpus() {
  JobFacts job = sound_job();
  for (Facts& rank : job.ranks) rank.gpus = eight_h200();
  return job;
}

TEST(DoctorChecks, Gpus) {
  const auto where = "warning gpus host node-b (rank 1)";
  const auto spoil = [](const std::function<void(Facts&)>& change) {
    return [change](JobFacts& job) { change(job.ranks[1]); };
  };
  expect_cases(
      job_on_gpus(),
      {{"nothing", [](JobFacts&) {}, ""},
       {"a libtorch for CPUs",
        [](JobFacts& job) {
          job.ranks.pop_back();
          job.size = 1;
          job.links.clear();
          job.names.clear();
          job.ranks[0].gpus.runtime = "";
        },
        "note gpus host node-a",
        {"8 NVIDIA H200", "CPUs alone", "docs/libtorch.md"}},
       {"an old driver",
        [](JobFacts& job) {
          for (Facts& rank : job.ranks) rank.gpus.driver = "535.104.05";
          job.ranks[1].gpus.devices = 0;
        },
        where,
        {"driver 535.104.05 is too old for CUDA 13.0", "580 or newer"}},
       {"hidden devices",
        spoil([](Facts& rank) {
          rank.gpus.devices = 0;
          rank.gpus.visible = "9";
        }),
        where,
        {"finds none of them (CUDA_VISIBLE_DEVICES=9)", "--gpus all"}},
       {"devices that are not wanted", spoil([](Facts& rank) {
          rank.gpus.devices = 0;
          rank.gpus.visible = "";
        }),
        ""},
       {"no peer access",
        spoil([](Facts& rank) { rank.gpus.apart = {"cuda:0 and cuda:3"}; }),
        where,
        {"cuda:0 and cuda:3 cannot reach each other's memory", "nvidia-smi topo -m"}},
       {"another interface for NCCL",
        spoil([](Facts& rank) {
          rank.gpus.nccl_names = "eth1";
          rank.gpus.nccl_address = "10.1.0.2";
        }),
        where,
        {"NCCL_SOCKET_IFNAME=eth1", "10.1.0.2", "10.0.0.2", "unset NCCL_SOCKET_IFNAME"}},
       {"no interface for NCCL",
        spoil([](Facts& rank) { rank.gpus.nccl_names = "ib0"; }),
        where,
        {"NCCL_SOCKET_IFNAME=ib0 fits no interface", "eth0 (10.0.0.2)"}},
       {"the same interface for NCCL", spoil([](Facts& rank) {
          rank.gpus.nccl_names = "eth0";
          rank.gpus.nccl_address = rank.address;
        }),
        ""},
       {"other GPUs",
        spoil([](Facts& rank) { rank.gpus.models.assign(4, "NVIDIA A100"); }),
        "warning gpus host node-a (rank 0) -> host node-b (rank 1)",
        {"8 NVIDIA H200 (driver 580.65.06) on host node-a", "4 NVIDIA A100 (driver 580.65.06) on host node-b"}},
       {"a host without",
        spoil([](Facts& rank) { rank.gpus = Gpus(); }),
        "warning gpus host node-a (rank 0) -> host node-b (rank 1)",
        {"none on host node-b"}}});
}

// What each of four ranks of one host sees, and the findings about who shares a device.
std::vector<std::string> shares(const std::vector<Gpus>& ranks) {
  JobFacts job;
  job.size = static_cast<int>(ranks.size());
  for (const Gpus& gpus : ranks) {
    job.ranks.push_back(sound_host(0));
    job.ranks.back().rank = static_cast<int>(job.ranks.size()) - 1;
    job.ranks.back().gpus = gpus;
  }
  std::vector<std::string> found;
  for (const auto& finding : check_gpus(job)) found.push_back(finding.what);
  return found;
}

TEST(DoctorChecks, EachRankHasAGpuOfItsOwn) {
  const auto seeing = [](std::optional<std::string> visible, std::int64_t devices) {
    auto gpus = eight_h200();
    gpus.visible = std::move(visible);
    gpus.devices = devices;
    return gpus;
  };
  const auto all = [&](std::optional<std::string> visible, std::int64_t devices) {
    return std::vector<Gpus>(4, seeing(std::move(visible), devices));
  };
  EXPECT_THAT(shares(all({}, 8)), testing::IsEmpty());
  EXPECT_THAT(shares(all("4,5,6,7", 4)), testing::IsEmpty());
  EXPECT_THAT(shares({seeing("3", 1), seeing("2", 1), seeing("1", 1), seeing("0", 1)}), testing::IsEmpty());
  EXPECT_THAT(shares(all("", 0)), testing::IsEmpty()) << "a job on CPUs";
  EXPECT_THAT(shares(all({}, 2)), testing::ElementsAre(HasSubstr("4 ranks and 2 devices: NCCL needs a device for each "
                                                                 "rank, and ranks 2, 3 would have none")));
  EXPECT_THAT(shares(all("5", 1)), testing::ElementsAre(HasSubstr("ranks 0, 1, 2, 3 would share device 5")));
  EXPECT_THAT(shares({seeing("0,1", 2), seeing("0,1", 2), seeing("1,2,0", 3), seeing({}, 8)}),
              testing::ElementsAre(HasSubstr("ranks 0, 2 would share device 0")));
}

TEST(DoctorChecks, TheWorstComesFirst) {
  JobFacts job = sound_job();
  job.ranks[0].shm_bytes = 0;
  job.links[1].problem = "Connection refused";
  job.ranks[0].open_files = 1;
  std::vector<std::string> order;
  for (const auto& finding : examine(job)) order.push_back(finding.check);
  EXPECT_EQ(order, (std::vector<std::string>{"links", "open_files", "shared_memory"}));
}

}  // namespace
}  // namespace lockstep::test
