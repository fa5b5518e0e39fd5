// Host files of other launchers, and the lists of batch systems.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/world/host_file.h>

#include <fstream>

#include "world/world_cases.h"

namespace lockstep {
namespace {

using test::expect_error;

std::string brief(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const auto& one : hosts) {
    text += (text.empty() ? "" : " ") + one.host + ":" + std::to_string(one.slots) + (one.slots_given ? "" : "?");
  }
  return text;
}

TEST(HostFile, ReadsWhatOtherLaunchersRead) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases = {
      {"worker-1 slots=4\nworker-2 slots=2\n", "worker-1:4 worker-2:2"},                         // DeepSpeed
      {"# all\n\nworker-1 slots=4 fast one\r\n", "worker-1:4"},                                  // DeepSpeed
      {"a slots=4\nb slots=4", "a:4 b:4"},                                                       // Horovod
      {"a slots = 2 max_slots= 8 // x\n/* b\n c */ me@d count=3 port=22\ne\n", "a:2 d:3 e:1?"},  // Open MPI
      {"a:4\nb\n[fd00::1]:2\nfd00::2 slots=3", "a:4 b:1? fd00::1:2 fd00::2:3"},                  // MPICH
      {"n1 4 all.q@n1 UNDEFINED\nn2 2 all.q@n2 <NULL>\nn1 1 other.q@n1 <NULL>", "n1:5 n2:2"},    // SGE
      {"n2\nn2\nn1\nn2\n", "n2:3? n1:1?"},                                                       // PBS
  };
  for (const auto& [text, hosts] : cases) EXPECT_EQ(brief(parse_host_file(text, "F")), hosts) << text;
  EXPECT_EQ(brief(parse_host_list("a:2,b:3", "-H")), "a:2 b:3");
  EXPECT_EQ(brief(parse_host_list("a,b,a", "-H")), "a:2? b:1?");
}

TEST(HostFile, NamesWhatIsWrong) {
  const std::vector<std::pair<std::string_view, std::vector<std::string>>> cases = {
      {"", {"F names no host", "HOST slots=N"}},
      {"# a\n", {"F names no host"}},
      {"a slots=0", {"F, line 1: '0' is no number of slots"}},
      {"a\nb slots=x", {"F, line 2: 'x' is no number of slots"}},
      {"a:x", {"'x' is no number of slots"}},
      {"a speed=3", {"'speed=3' is no setting of a host"}},
      {"a fast", {"'fast' is no number of slots"}},
      {"^a", {"'^a'", "Open MPI"}},
      {"+n0", {"'+n0'", "Open MPI"}},
      {"rank 0=a slot=1", {"'0=a' is no setting"}},
      {"[::1", {"'[::1' is no host"}},
  };
  for (const auto& [text, words] : cases) {
    SCOPED_TRACE(text);
    const auto error = expect_error(ErrorKind::config, {}, [&, t = text] { parse_host_file(t, "F"); });
    if (!error) continue;
    for (const auto& word : words) test::expect_words(error->what(), {word});
  }
  expect_error(ErrorKind::config, {"-H: 'x' is no number of slots", "HOST:N,HOST:N"},
               [] { parse_host_list("a:x,b", "-H"); });
}

TEST(AllocatedHosts, AreReadFromEachBatchSystem) {
  const TemporaryFolder folder("hosts");
  const auto file = [&](const std::string& name, std::string_view text) {
    std::ofstream(folder.path() / name) << text;
    return (folder.path() / name).string();
  };
  const auto hosts = [](const Environment& environment) {
    const auto allocated = find_allocated_hosts(environment);
    return allocated ? allocated->system + " " + brief(allocated->hosts) : "none";
  };
  EXPECT_EQ(hosts({}), "none");
  EXPECT_EQ(hosts({{"PBS_NODEFILE", file("pbs", "n1\nn1\nn2\n")}}), "PBS n1:2? n2:1?");
  EXPECT_EQ(hosts({{"LSB_DJOB_HOSTFILE", file("lsf", "batch1\nc1\nc1\nc2\n")}}), "LSF c1:2? c2:1?");
  EXPECT_EQ(hosts({{"LSB_MCPU_HOSTS", "a 4 b 2"}}), "LSF a:4 b:2");
  EXPECT_EQ(hosts({{"LSB_HOSTS", "a a b"}}), "LSF a:2? b:1?");
  EXPECT_EQ(hosts({{"PE_HOSTFILE", file("sge", "n1 4 q@n1 UNDEFINED\n")}}), "SGE n1:4");
  EXPECT_EQ(hosts({{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "4,2"}}), "Slurm n1:4 n2:2");
  EXPECT_EQ(hosts({{"SLURM_JOB_NODELIST", "n[1-2]"}}), "Slurm n1:1? n2:1?");
  expect_error(ErrorKind::environment, {"PBS_NODEFILE=/none", "No such file"}, [] {
    find_allocated_hosts({{"PBS_NODEFILE", "/none"}});
  });
}

}  // namespace
}  // namespace lockstep
