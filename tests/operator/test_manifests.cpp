// The files under deploy/ are what the program writes, and the examples are valid.
#include <apps/operator/controller/manifests.h>
#include <apps/operator/job/job.h>
#include <apps/operator/job/json.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/base/files.h>

#include <filesystem>

namespace lockstep::kube {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = LOCKSTEP_SOURCE_DIR;

TEST(Manifests, DeployHasThemAsTheyArePrinted) {
  for (const auto& [file, objects] : deployment_manifests()) {
    EXPECT_EQ(read_file(kSource / "deploy" / file).value_or(""), print_manifest(objects))
        << file << " is out of date: lockstep operator manifests --out deploy";
  }
}

TEST(Manifests, AreReadAsTheyArePrinted) {
  for (const auto& [file, objects] : deployment_manifests()) {
    EXPECT_EQ(parse_yaml_documents(print_manifest(objects), file), objects) << file;
  }
}

TEST(Examples, AreValidJobs) {
  int jobs = 0;
  for (const auto& entry : fs::directory_iterator(kSource / "examples" / "kubernetes")) {
    if (entry.path().extension() != ".yaml") continue;
    for (const auto& object : parse_yaml_documents(read_file(entry.path()).value(), entry.path())) {
      if (object["kind"] != "LockstepJob") continue;
      EXPECT_THAT(parse_job(object).problems, testing::IsEmpty()) << entry.path();
      ++jobs;
    }
  }
  EXPECT_GE(jobs, 4);
}

}  // namespace
}  // namespace lockstep::kube
