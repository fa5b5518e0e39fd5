// What the probers say about this very machine.
#include "support/port.h"

#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/text.h>
#include <lockstep/doctor/probe.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lockstep::test {
namespace {

using namespace doctor;
using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

Facts probe(const Environment& environment, const std::filesystem::path& root = "/") {
  Facts facts;
  probe_machine(facts, environment, root);
  return facts;
}

TEST(DoctorProbe, Machine) {
  const Facts facts = probe({{"OMP_NUM_THREADS", "3"}});
  EXPECT_EQ(facts.memfd_problem, "");
  EXPECT_GE(facts.cpus, 1);
  EXPECT_EQ(facts.omp_threads, 3);
  EXPECT_EQ(facts.open_files, static_cast<std::uint64_t>(::sysconf(_SC_OPEN_MAX)));
  EXPECT_EQ(facts.shm_bytes > 0, std::filesystem::exists("/dev/shm"));
  EXPECT_EQ(probe({{"OMP_NUM_THREADS", "4,2"}}).omp_threads, std::nullopt);
}

TEST(DoctorProbe, Containers) {
  const TemporaryFolder root;
  EXPECT_FALSE(probe({}, root.path()).in_container);
  EXPECT_EQ(probe({}, root.path()).shm_bytes, 0u);
  EXPECT_TRUE(probe({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}, root.path()).in_container);
  std::ofstream(root.path() / ".dockerenv").flush();
  EXPECT_TRUE(probe({}, root.path()).in_container);
}

TEST(DoctorProbe, GpusByTheFilesOfTheirDriver) {
  const TemporaryFolder root;
  const auto driver = root.path() / "proc/driver/nvidia";
  EXPECT_EQ(probe({}, root.path()).gpus.driver, "");
  for (const auto* device : {"0000:3b:00.0", "0000:86:00.0"}) {
    std::filesystem::create_directories(driver / "gpus" / device);
    std::ofstream(driver / "gpus" / device / "information")
        << "Model: \t\t NVIDIA H200\nIRQ:   \t\t 240\nGPU UUID: \t GPU-5b1c\nVideo BIOS: \t 96.00.a1\n";
  }
  for (const auto* line :
       {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (builder@host)  Sun Jul 27",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sat Aug 19 01:15:15 UTC 2023"}) {
    std::ofstream(driver / "version") << line << "\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";
    const Gpus gpus = probe({{"CUDA_VISIBLE_DEVICES", ""}}, root.path()).gpus;
    EXPECT_EQ(gpus.driver, "580.65.06");
    EXPECT_EQ(describe(gpus), "2 NVIDIA H200");
    EXPECT_EQ(gpus.visible, "");
    EXPECT_EQ(gpus.devices, std::nullopt) << "nobody asked libtorch";
  }
}

TEST(DoctorProbe, ProxiesWithoutTheirPasswords) {
  EXPECT_THAT(find_proxies({{"http_proxy", "http://me:secret@proxy:3128"},
                            {"HTTPS_PROXY", "proxy:3128"},
                            {"all_proxy", ""},
                            {"ftp_proxy", "x"}}),
              UnorderedElementsAre(Pair("http_proxy", "http://me:***@proxy:3128"), Pair("HTTPS_PROXY", "proxy:3128")));
  const Facts facts = probe({{"http_proxy", "p"}, {"NO_PROXY", "a,b"}});
  EXPECT_EQ(facts.proxies.size(), 1u);
  EXPECT_EQ(facts.no_proxy, "a,b");
}

TEST(DoctorProbe, Interfaces) {
  bool has_loopback = false;
  for (const Interface& one : probe_interfaces())
    has_loopback = has_loopback || (one.loopback && one.address == "127.0.0.1");
  EXPECT_TRUE(has_loopback);
}

TEST(DoctorProbe, Names) {
  const WaitLimit wait_limit(30s);
  EXPECT_THAT(probe_name("localhost", wait_limit).addresses, Contains("127.0.0.1"));
  EXPECT_THAT(probe_name("10.1.2.3", wait_limit).addresses, testing::ElementsAre("10.1.2.3"));
  EXPECT_TRUE(probe_name("no-such-host.invalid", wait_limit).addresses.empty());
  EXPECT_TRUE(probe_name("localhost", wait_limit).answered);
}

TEST(DoctorProbe, PortsAndWhoHoldsThem) {
  const auto number = test::reserve_port();
  {
    const auto held = test::listen_on(number);
    ASSERT_GE(held.get(), 0);
    EXPECT_THAT(probe_port(number).problem,
                testing::AllOf(HasSubstr("taken by "), HasSubstr(fmt::format("(pid {})", ::getpid()))));
  }
  EXPECT_EQ(probe_port(number).problem, "");
}

TEST(DoctorProbe, Files) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "run.yaml";
  std::ofstream(file) << "abc";
  EXPECT_EQ(probe_file(file), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(probe_file(folder.path() / "absent"), "");
  EXPECT_EQ(probe_file(folder.path()), "");
}

TEST(DoctorProbe, TheProgramOfThisProcess) {
  EXPECT_THAT(probe_command_line(), Contains(Pair("this program", probe_file("/proc/self/exe"))));
}

}  // namespace
}  // namespace lockstep::test
