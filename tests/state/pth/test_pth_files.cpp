// Files that Python's torch.save wrote (write_files.py), whole and damaged: what is read, and what is refused.
#include "state/pth/read_archive.h"
#include "support/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace lockstep::state {
namespace {

using test::error_about;
using test::read_archive;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

std::string bytes_of(const std::string& name) {
  const auto path = std::filesystem::path(LOCKSTEP_PTH_FILES) / name;
  EXPECT_TRUE(std::filesystem::exists(path)) << path;
  return test::read_file(path);
}

std::vector<std::string> names_in(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& tensor : state.tensors) names.push_back(tensor.name);
  return names;
}

const StoredTensor& find(const StateDict& state, std::string_view name) {
  const auto found = std::ranges::find(state.tensors, name, &StoredTensor::name);
  if (found == state.tensors.end()) throw std::runtime_error("no tensor " + std::string(name));
  return *found;
}

TEST(PthFiles, AStateDictIsReadInItsOrder) {
  const auto read = read_archive(bytes_of("plain.pth"));
  EXPECT_THAT(names_in(read.state), ElementsAre("0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean",
                                                "1.running_var", "1.num_batches_tracked"));
  EXPECT_EQ(read.state.place, "");
  EXPECT_THAT(read.state.others, IsEmpty());
  const auto& weight = find(read.state, "0.weight");
  EXPECT_EQ(weight.dtype, "F32");
  EXPECT_THAT(weight.sizes, ElementsAre(2, 3));
  EXPECT_THAT(weight.strides, ElementsAre(3, 1));
  EXPECT_EQ(read.storages.at(weight.storage).size(), 24U);
  EXPECT_EQ(find(read.state, "1.num_batches_tracked").dtype, "I64");
  EXPECT_THAT(find(read.state, "1.num_batches_tracked").sizes, IsEmpty());
}

TEST(PthFiles, ViewsShareTheirStorages) {
  const auto read = read_archive(bytes_of("views.pth"));
  const auto& whole = find(read.state, "whole");
  for (const auto* name : {"transposed part", "every other", "expanded", "scalar in the middle", "parameter"}) {
    EXPECT_EQ(find(read.state, name).storage, whole.storage) << name;
  }
  EXPECT_EQ(read.storages.at(whole.storage).size(), 80U);
  const auto& part = find(read.state, "transposed part");
  EXPECT_THAT(part.sizes, ElementsAre(2, 4));
  EXPECT_THAT(part.strides, ElementsAre(1, 5));
  EXPECT_EQ(part.offset, 1);
  EXPECT_THAT(find(read.state, "expanded").strides, ElementsAre(0, 0));
  EXPECT_EQ(find(read.state, "bfloat16").dtype, "BF16");
  EXPECT_EQ(find(read.state, "bool").dtype, "BOOL");
}

TEST(PthFiles, AStateDictInACheckpointIsFound) {
  const auto plain = names_in(read_archive(bytes_of("plain.pth")).state);
  const auto checkpoint = read_archive(bytes_of("checkpoint.pth"));
  EXPECT_EQ(checkpoint.state.place, "state_dict");
  EXPECT_EQ(names_in(checkpoint.state), plain);
  EXPECT_EQ(checkpoint.storages.size(), 7U) << "the optimizer's state is not read";
  const auto twice = read_archive(bytes_of("twice.pth"));
  EXPECT_EQ(twice.state.place, "model.state_dict");
  EXPECT_EQ(names_in(twice.state), plain);
  const auto mixed = read_archive(bytes_of("mixed.pth"));
  EXPECT_EQ(names_in(mixed.state), plain);
  EXPECT_THAT(mixed.state.others, ElementsAre(Pair("epoch", "a number")));
}

TEST(PthFiles, ArchivesOfOtherZipProgramsAndOfNewerPyTorchAreRead) {
  for (const auto* name : {"zipped_by_python.pth", "little.pth"}) {
    EXPECT_EQ(read_archive(bytes_of(name)), read_archive(bytes_of("plain.pth"))) << name;
  }
}

TEST(PthFiles, WhatIsBesideTheTensorsIsNamedAndNotRun) {
  const std::filesystem::path trace = "/tmp/lockstep-was-fooled";
  const auto others = [](const std::string& name) { return read_archive(bytes_of(name)).state.others; };
  EXPECT_THAT(others("system.pth"), ElementsAre(Pair("x", "posix.system")));
  EXPECT_THAT(others("eval.pth"), ElementsAre(Pair("x", "__builtin__.eval")));
  EXPECT_FALSE(std::filesystem::exists(trace));
  EXPECT_THAT(others("namespace.pth"), ElementsAre(Pair("args", "argparse.Namespace")));
  EXPECT_THAT(others("complex.pth"), ElementsAre(Pair("w", "a tensor of dtype C64")));
  for (const auto* name : {"anything.pth", "anything5.pth"}) {
    const auto read = read_archive(bytes_of(name));
    EXPECT_EQ(names_in(read.state), names_in(read_archive(bytes_of("plain.pth")).state)) << name;
    EXPECT_THAT(
        read.state.others,
        AllOf(Contains(Pair("best", "numpy.core.multiarray.scalar")), Contains(Pair("when", "datetime.datetime")),
              Contains(Pair("array", HasSubstr("numpy.core."))), Contains(Pair("quantized", HasSubstr("qtensor"))),
              Contains(Pair("sparse", HasSubstr("sparse_tensor")))))
        << name;
  }
}

TEST(PthFiles, TheFormBeforeZipIsRead) {
  const auto same = [](const std::string& old, const std::string& zipped) {
    const auto a = read_archive(bytes_of(old));
    const auto b = read_archive(bytes_of(zipped));
    EXPECT_EQ(names_in(a.state), names_in(b.state)) << old;
    EXPECT_EQ(a.state.place, b.state.place) << old;
    for (const auto& tensor : a.state.tensors) {
      const auto& other = find(b.state, tensor.name);
      EXPECT_EQ(tensor.dtype, other.dtype) << tensor.name;
      EXPECT_EQ(tensor.sizes, other.sizes) << tensor.name;
      EXPECT_EQ(tensor.offset, other.offset) << tensor.name;
      EXPECT_EQ(a.storages.at(tensor.storage), b.storages.at(other.storage)) << tensor.name;
    }
  };
  same("old.pth", "plain.pth");
  same("old4.pth", "plain.pth");
  same("old_views.pth", "views.pth");
  same("old_checkpoint.pth", "checkpoint.pth");
}

TEST(PthFiles, AKeyChoosesTheDict) {
  const auto place_of = [](const std::string& name, const std::string& key) {
    return PthArchive(test::source_of(bytes_of(name)), "file.pth", key).state().place;
  };
  EXPECT_EQ(place_of("two.pth", ""), "net");
  EXPECT_EQ(place_of("two.pth", "ema.module"), "ema.module");
  EXPECT_EQ(place_of("elsewhere.pth", ""), "net");
  EXPECT_EQ(place_of("found.pth", ""), "my_own_key") << "the only dict of tensors";
  EXPECT_THAT(error_about(bytes_of("gan.pth")),
              AllOf(HasSubstr("\"painter\" (a dict of tensors)"), HasSubstr("model.weights_key=critic")));
  try {
    place_of("two.pth", "nett");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), AllOf(HasSubstr("no dict 'nett'"), HasSubstr("dicts of tensors are: ema, net")));
  }
}

TEST(PthFiles, OtherFilesAreRefusedWithARemedy) {
  EXPECT_EQ(names_in(read_archive(bytes_of("protocol4.pth")).state),
            names_in(read_archive(bytes_of("plain.pth")).state));
  EXPECT_THAT(error_about(bytes_of("module.pth")), HasSubstr("torch.nn.modules.container.Sequential"));
  EXPECT_THAT(error_about(bytes_of("script.pt")), AllOf(HasSubstr("TorchScript"), HasSubstr("state_dict()")));
  EXPECT_THAT(error_about(bytes_of("compressed.pth")), HasSubstr("compressed"));
  EXPECT_THAT(error_about(bytes_of("big.pth")), HasSubstr("little-endian"));
  EXPECT_THAT(error_about(bytes_of("tensor.pth")), HasSubstr("holds a tensor, not a dict"));
}

TEST(PthFiles, TheFormatIsKnownByItsFirstBytes) {
  EXPECT_EQ(weights_format(bytes_of("plain.pth").substr(0, 16)), WeightsFormat::pth);
  EXPECT_EQ(weights_format(bytes_of("zipped_by_python.pth").substr(0, 16)), WeightsFormat::pth);
  EXPECT_EQ(weights_format(bytes_of("old.pth").substr(0, 16)), WeightsFormat::old_pth);
  EXPECT_EQ(weights_format(bytes_of("old4.pth").substr(0, 16)), WeightsFormat::old_pth);
  EXPECT_EQ(weights_format("\x0a\x20\x0a\x06weight"), WeightsFormat::mindspore);
  EXPECT_EQ(weights_format(std::string_view("\x0a\0\0\0\0\0\0\0{", 9)), WeightsFormat::safetensors);
  EXPECT_EQ(weights_format(std::string(257, 'x') + "ustar"), WeightsFormat::oldest_pth);
  EXPECT_EQ(weights_format(""), WeightsFormat::safetensors);
  EXPECT_EQ(weights_format(std::string_view("PK\x03\x04\0\0\0\0{\"a\":{", 14)), WeightsFormat::safetensors);
}

TEST(PthFiles, AFileCutShortAnywhereIsAnError) {
  for (const auto* name : {"views.pth", "zipped_by_python.pth", "old_views.pth"}) {
    const auto whole = bytes_of(name);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_NE(error_about(whole.substr(0, length)), "") << name << " of " << length;
    }
  }
}

TEST(PthFiles, AChangedBitIsAnErrorOrChangesNothing) {
  for (const auto* name : {"plain.pth", "zipped_by_python.pth"}) {
    const auto whole = bytes_of(name);
    const auto expected = read_archive(whole);
    std::size_t refused = 0;
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      auto damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
      try {
        EXPECT_EQ(read_archive(damaged), expected) << name << ", bit " << bit;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
        ++refused;
      }
    }
    EXPECT_GT(refused, 2 * whole.size());  // the rest is times, padding and the like
  }
}

}  // namespace
}  // namespace lockstep::state
