// How encryption is asked for, and what is refused.
#include "comm/suite.h"
#include "support/certificates.h"

#include <lockstep/base/temporary_folder.h>

#include <cstdlib>
#include <string>

namespace lockstep::test {
namespace {

World alone_in(const TemporaryFolder& folder) {
  World world;
  world.size = 2;
  world.rendezvous = Rendezvous::file;
  world.store_path = folder.path() / "store";
  return world;
}

TEST(Encryption, BackendsThatCannotEncryptAreRefused) {
  const TemporaryFolder folder;
  auto options = RankOptions::test_group_options("mpi");
  options.encrypt = true;
  const auto error = error_of([&] { connect(alone_in(folder), options); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
  expect_words(error, {"parallel.encrypt", "\"mpi\" cannot encrypt", "tcp"});
}

TEST(Encryption, WithoutCertificatesTheErrorNamesTheKeys) {
  const TemporaryFolder folder;
  GroupOptions options;
  options.encrypt = true;
  auto error = error_of([&] { connect(alone_in(folder), options); });
  EXPECT_EQ(error.kind(), ErrorKind::environment);
  expect_words(error,
               {"parallel.encrypt", "cluster.config_file_path", "LOCKSTEP_CLUSTER_CONFIG", "lockstep certs init"});
  options.cluster.config_file_path = folder.path() / "none.json";
  error = error_of([&] { connect(alone_in(folder), options); });
  EXPECT_EQ(error.kind(), ErrorKind::config);
  expect_words(error, {"none.json"});
}

// It would be a hang, or worse, no encryption where some count on it.
TEST(Encryption, SomeRanksAloneAreAnErrorOnAll) {
  if (mpirun_size()) GTEST_SKIP() << "makes its own ranks";
  const std::string config = certificates();
  for (const auto rendezvous : {Rendezvous::file, Rendezvous::tcp}) {
    RankOptions options;
    options.rendezvous = rendezvous;
    run_ranks(3, options, [&](Rank& rank) {
      auto own = RankOptions::test_group_options("auto");
      own.encrypt = rank.rank() == 1;
      own.cluster.config_file_path = config;
      const auto error = error_of([&] { connect(rank.world(), own); });
      EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
      expect_words(error, {"parallel.encrypt", "on for rank 1 ", "off for rank 0, 2"});
    });
  }
}

TEST(Encryption, IsAskedForByVariables) {
  if (mpirun_size()) GTEST_SKIP() << "makes its own ranks";
  RankOptions options{.group = RankOptions::test_group_options("auto")};
  options.environment = {{"LOCKSTEP_ENCRYPT", "1"}, {"LOCKSTEP_CLUSTER_CONFIG", certificates()}};
  for (const bool several : {false, true}) {
    if (several) options.hosts = {"alpha", "beta"};
    run_ranks(2, options, [&](Rank& rank) {
      auto tensor = at::ones({3});
      all_reduce(tensor, rank.group());
      EXPECT_TRUE(same(tensor, at::full({3}, 2.F)));
      EXPECT_EQ(rank.group().backend(), several ? "tcp" : "shm");
    });
  }
}

TEST(Encryption, OfTheStoreToo) {
  if (mpirun_size()) GTEST_SKIP() << "makes its own ranks";
  RankOptions options{.group = RankOptions::test_group_options("tls")};
  options.rendezvous = Rendezvous::tcp;
  run_ranks(3, options, [&](Rank& rank) {
    World world = rank.world();
    world.local_size = 0;           // not all ranks are here, as far as the launcher says,
    world.master_addr = "0.0.0.0";  // which is no address of this host: the store listens on all of them
    const auto group = connect(world, rank.options());
    barrier(group);
  });
}

TEST(Encryption, RanksDisagreeAboutTheStore) {
  if (mpirun_size()) GTEST_SKIP() << "makes its own ranks";
  RankOptions options{.group = RankOptions::test_group_options("tls")};
  options.rendezvous = Rendezvous::tcp;
  const auto outcomes = rank_outcomes(2, options, [&](Rank& rank) {
    World world = rank.world();
    world.local_size = 0;
    world.master_addr = "0.0.0.0";
    auto own = rank.options();
    own.start_timeout = std::chrono::seconds(rank.rank() == 0 ? 15 : 30);
    if (rank.rank() == 1) {
      own.backend = "tcp";
      own.encrypt = false;
    }
    const auto error = error_of([&] { connect(world, own); });
    if (rank.rank() == 0) {
      EXPECT_EQ(error.kind(), ErrorKind::timeout);
    } else {
      expect_words(error, {"encrypts, and this process does not", "LOCKSTEP_ENCRYPT"});
    }
  });
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << describe(outcome);
}

}  // namespace
}  // namespace lockstep::test
