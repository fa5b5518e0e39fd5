// The check of NVIDIA GPUs: driver and CUDA, a device for each rank, equal hosts, and paths between devices. A job on
// CPUs runs with any result, so no finding is an error.
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/doctor/checks.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

namespace lockstep::doctor {
namespace {

constexpr auto kGpus = "gpus";

std::int64_t first_number(std::string_view version) {
  return parse_integer(version.substr(0, version.find('.'))).value_or(0);
}

/// The oldest driver that runs programs of this CUDA; 0: unknown. From NVIDIA's "CUDA Compatibility", minor version
/// compatibility.
std::int64_t oldest_driver_of(std::string_view cuda) {
  constexpr std::array<std::pair<std::int64_t, std::int64_t>, 3> kDrivers{{{11, 450}, {12, 525}, {13, 580}}};
  for (const auto& [version, driver] : kDrivers) {
    if (version == first_number(cuda)) return driver;
  }
  return 0;
}

Finding warning(const std::string& where, const std::string& what, const std::string& fix) {
  return {Severity::warning, kGpus, where, what, fix};
}

void check_libtorch(const JobFacts& job, const Facts& host, std::vector<Finding>& findings) {
  const Gpus& gpus = host.gpus;
  if (gpus.models.empty()) {
    if (gpus.runtime.empty() || gpus.devices.value_or(1) > 0) return;
    findings.push_back({Severity::note, kGpus, place(job, host),
                        fmt::format("libtorch was built for CUDA {}, and no driver here shows an NVIDIA GPU "
                                    "(/proc/driver/nvidia)",
                                    gpus.runtime),
                        "for a GPU install its driver, or give devices to the container (docker run --gpus all); jobs "
                        "on CPUs need nothing"});
    return;
  }
  const auto found = describe(gpus);
  if (gpus.runtime.empty()) {
    findings.push_back({Severity::note, kGpus, place(job, host),
                        fmt::format("it has {}, and its libtorch computes on CPUs alone", found),
                        "to train on them, build with a libtorch for CUDA (docs/libtorch.md); else nothing"});
    return;
  }
  if (!gpus.devices || *gpus.devices > 0 || gpus.visible == "") return;
  const auto oldest = oldest_driver_of(gpus.runtime);
  if (const auto driver = first_number(gpus.driver); driver > 0 && driver < oldest) {
    findings.push_back(warning(place(job, host),
                               fmt::format("driver {} is too old for CUDA {}, which libtorch was built for and which "
                                           "needs driver {} or newer; libtorch finds no device",
                                           gpus.driver, gpus.runtime, oldest),
                               "install a newer driver, or build with a libtorch for an older CUDA"));
    return;
  }
  findings.push_back(
      warning(place(job, host),
              fmt::format("it has {}, and libtorch finds none of them{}", found,
                          gpus.visible ? fmt::format(" (CUDA_VISIBLE_DEVICES={})", *gpus.visible) : ""),
              "look at CUDA_VISIBLE_DEVICES, at nvidia-smi, and whether the container gets devices (docker run --gpus "
              "all)"));
}

/// The device of the rank with number `local` on its host: the entry of CUDA_VISIBLE_DEVICES, or the number. Empty: no
/// device is left for it.
std::string device_of(const Gpus& gpus, std::int64_t local) {
  const auto devices = gpus.devices.value_or(0);
  const bool sees_its_own = devices == 1 && gpus.visible;
  const auto index = sees_its_own ? 0 : local;
  if (index >= devices) return "";
  if (!gpus.visible) return std::to_string(index);
  std::string_view left = *gpus.visible;
  for (std::int64_t i = 0; i < index; ++i) left = left.substr(std::min(left.size(), left.find(',') + 1));
  return std::string(left.substr(0, left.find(',')));
}

// The same choice that connect() makes for NCCL.
void check_shares(const JobFacts& job, const Facts& host, std::vector<Finding>& findings) {
  std::map<std::string, std::vector<int>> ranks_of;
  std::vector<int> without;
  std::int64_t local = 0;
  for (const Facts& rank : job.ranks) {
    if (rank.identity != host.identity) continue;
    if (rank.gpus.devices.value_or(0) == 0) return;
    const auto device = device_of(rank.gpus, local++);
    (device.empty() ? without : ranks_of[device]).push_back(rank.rank);
  }
  constexpr auto kFix =
      "start as many ranks as there are devices (lockstep run --nproc-per-node gpu), and give all ranks of the host "
      "the same CUDA_VISIBLE_DEVICES or each a different one; to share one on purpose, use backend staged "
      "(docs/gpus.md); jobs on CPUs need nothing";
  if (!without.empty()) {
    findings.push_back(
        warning(place(job, host),
                fmt::format("{} ranks and {} device{}: NCCL needs a device for each rank, and {} would have none",
                            local, *host.gpus.devices, *host.gpus.devices == 1 ? "" : "s", names_of_ranks(without)),
                kFix));
  }
  for (const auto& [device, ranks] : ranks_of) {
    if (ranks.size() == 1) continue;
    findings.push_back(warning(
        place(job, host),
        fmt::format("ranks {} would share device {}, and NCCL needs one for each rank", fmt::join(ranks, ", "), device),
        kFix));
  }
}

void check_ways(const JobFacts& job, const Facts& host, std::vector<Finding>& findings) {
  const Gpus& gpus = host.gpus;
  if (!gpus.apart.empty()) {
    findings.push_back(
        warning(place(job, host),
                fmt::format("{} cannot reach each other's memory: NCCL goes through the host's, which is "
                            "slower",
                            fmt::join(gpus.apart, ", ")),
                "on bare metal look at nvidia-smi topo -m, IOMMU and ACS; virtual machines often have "
                "no peer access"));
  }
  if (gpus.nccl_names.empty() || gpus.devices.value_or(0) == 0 || gpus.nccl_address == host.address) return;
  findings.push_back(warning(place(job, host),
                             gpus.nccl_address.empty()
                                 ? fmt::format("NCCL_SOCKET_IFNAME={} fits no interface that is up; there are: {}",
                                               gpus.nccl_names, candidates(host))
                                 : fmt::format("NCCL_SOCKET_IFNAME={} makes NCCL use {}, while Lockstep uses {} ({})",
                                               gpus.nccl_names, gpus.nccl_address, host.address, host.address_why),
                             "set LOCKSTEP_SOCKET_IFNAME to the interface between the hosts and unset "
                             "NCCL_SOCKET_IFNAME: NCCL gets the same"));
}

std::string all_of(const Facts& host) {
  return host.gpus.models.empty() ? "none"
                                  : fmt::format("{} (driver {})", describe(host.gpus),
                                                host.gpus.driver.empty() ? "unknown" : host.gpus.driver);
}

void compare_hosts(const JobFacts& job, std::vector<Finding>& findings) {
  const auto hosts = hosts_of(job);
  for (const Facts* host : hosts) {
    if (all_of(*host) == all_of(*hosts.front())) continue;
    findings.push_back(warning(fmt::format("{} -> {}", place(job, *hosts.front()), place(job, *host)),
                               fmt::format("GPUs differ: {} on host {}, {} on host {}", all_of(*hosts.front()),
                                           hosts.front()->host, all_of(*host), host->host),
                               "use equal hosts for a job on GPUs: each step waits for the slowest"));
    return;
  }
}

}  // namespace

std::vector<Finding> check_gpus(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    check_libtorch(job, *host, findings);
    check_shares(job, *host, findings);
    check_ways(job, *host, findings);
  }
  compare_hosts(job, findings);
  return findings;
}

}  // namespace lockstep::doctor
