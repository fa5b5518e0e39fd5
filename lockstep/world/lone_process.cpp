// Evidence of several processes where no launcher detection can identify this one. Training alone would then use one
// host of several, or do the same work several times, in one folder.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/host_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

namespace lockstep::detail {
namespace {

/// A reason to refuse: the evidence for several processes, and how they are started.
struct Several {
  std::string what;
  std::string way_out;
  bool hosts = false;  ///< whether they are on several hosts
};

/// The integer in a variable; 0 for another text, and without the variable.
std::int64_t count_in(const Environment& environment, std::string_view name) {
  return parse_integer(find(environment, name).value_or("")).value_or(0);
}

/// "NAME=value" of the first variable whose count is above one.
std::optional<std::string> find_count(const Environment& environment, std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    if (count_in(environment, name) > 1) return fmt::format("{}={}", name, *find(environment, name));
  }
  return std::nullopt;
}

std::optional<Several> several_of_slurm(const Environment& environment) {
  if (is_slurm_step(environment)) return std::nullopt;
  const auto count = find_count(environment, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURM_NTASKS", "SLURM_NPROCS"});
  if (!count) return std::nullopt;
  return Several{fmt::format("{} belongs to an allocation of Slurm, and this process was not started by srun", *count),
                 "start the program with srun, also in a script of sbatch", count->find("NODES") != std::string::npos};
}

std::optional<Several> several_of_pmix(const Environment& environment) {
  // A step of one task has these variables too; a step with several is handled by launcher detection.
  if (is_slurm_step(environment) || !find(environment, "PMIX_NAMESPACE")) return std::nullopt;
  const auto rank = find(environment, "PMIX_RANK");
  const bool has_server =
      std::ranges::any_of(environment, [](const auto& one) { return one.first.starts_with("PMIX_SERVER_URI"); });
  if (!rank || !has_server) return std::nullopt;
  return Several{
      fmt::format("PMIX_RANK={} makes this process one of a job of PMIx, and no variable gives the number of its "
                  "processes",
                  *rank),
      "start the program with Open MPI's mpirun or with srun, or set RANK, WORLD_SIZE, MASTER_ADDR and "
      "MASTER_PORT"};
}

std::optional<Several> several_of_batch_system(const Environment& environment) {
  std::optional<AllocatedHosts> allocated;
  try {
    allocated = find_allocated_hosts(environment);
  } catch (const Error&) {
    return std::nullopt;  // a list that this host cannot read is no evidence
  }
  if (!allocated || allocated->system == "Slurm" || allocated->hosts.size() < 2) return std::nullopt;
  return Several{fmt::format("{} gives this job of {} {} hosts ({}, {}{}), and this process is alone on one of them",
                             allocated->source, allocated->system, allocated->hosts.size(), allocated->hosts[0].host,
                             allocated->hosts[1].host, allocated->hosts.size() > 2 ? ", ..." : ""),
                 "start the program with mpirun, or 'lockstep run --hosts auto PROGRAM' on each host", true};
}

std::optional<Several> several_of_azure(const Environment& environment) {
  for (const auto& [name, separator] : {std::pair{"AZ_BATCH_NODE_LIST", ';'}, std::pair{"AZ_BATCH_HOST_LIST", ','}}) {
    std::string list = find(environment, name).value_or("");
    const auto others = std::count(list.begin(), list.end(), separator);
    if (others == 0 || list.back() == separator) continue;
    const std::string given = fmt::format("{}={}", name, list);
    std::replace(list.begin(), list.end(), separator, ',');
    return Several{
        fmt::format("{} names {} nodes of Azure Batch, and this process is alone on one of them", given, others + 1),
        fmt::format("start the program with mpirun, or 'lockstep run --nodes {} --ctrl-port 9988 PROGRAM' on "
                    "each node",
                    list),
        true};
  }
  return std::nullopt;
}

std::optional<Several> several_of_aws(const Environment& environment) {
  const auto count = find_count(environment, {"AWS_BATCH_JOB_NUM_NODES"});
  if (!count) return std::nullopt;
  return Several{fmt::format("{} makes this process one of several of AWS Batch", *count),
                 "start 'lockstep run --nnodes $AWS_BATCH_JOB_NUM_NODES --node-rank $AWS_BATCH_JOB_NODE_INDEX "
                 "--master-addr HOST PROGRAM' on each node, with the address of the main node "
                 "(AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS on the others)",
                 true};
}

std::optional<Several> several_of_torchrun(const Environment& environment) {
  const auto nodes = find(environment, "PET_NNODES").value_or("");
  if (nodes.find(':') == std::string::npos && count_in(environment, "PET_NNODES") < 2) return std::nullopt;
  return Several{fmt::format("PET_NNODES={} is the number of nodes for torchrun and lockstep run, and this process was "
                             "started by neither",
                             nodes),
                 "start the program with 'lockstep run', which reads PET_* variables"};
}

constexpr std::array kSystems = {several_of_slurm, several_of_pmix, several_of_batch_system,
                                 several_of_azure, several_of_aws,  several_of_torchrun};

}  // namespace

void refuse_lone_process(const Environment& environment) {
  for (const auto& find_several : kSystems) {
    const auto several = find_several(environment);
    if (!several) continue;
    fail(ErrorKind::environment, "world",
         "{}; {}. Where one process is meant, use --launcher none (a program without that flag: RANK=0 WORLD_SIZE=1)",
         several->what, several->way_out);
  }
}

std::optional<std::string> other_hosts(const Environment& environment) {
  for (const auto& find_several : kSystems) {
    const auto several = find_several(environment);
    if (several && several->hosts) return several->what;
  }
  return std::nullopt;
}

}  // namespace lockstep::detail
