#include <fcntl.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/unique_fd.h>
#include <unistd.h>

#include <fstream>

#include "base/expect_error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolder, LivesAsLongAsItsOwner) {
  fs::path path;
  {
    const TemporaryFolder folder("some");
    path = folder.path();
    EXPECT_TRUE(path.filename().string().starts_with("some-"));
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    fs::create_directories(path / "a" / "b");
    std::ofstream(path / "a" / "b" / "file") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryFolder, MovesAndReleases) {
  TemporaryFolder first;
  const fs::path first_path = first.path();
  TemporaryFolder second;
  const fs::path second_path = second.path();
  EXPECT_NE(first_path, second_path);
  second = std::move(first);
  EXPECT_FALSE(fs::exists(second_path));
  EXPECT_EQ(second.path(), first_path);
  EXPECT_EQ(second.release(), first_path);
  EXPECT_TRUE(fs::exists(first_path));
  fs::remove_all(first_path);
}

TEST(TemporaryFolder, NamesTheParentThatIsMissing) {
  test::expect_error(ErrorKind::io, {"/no/such/parent", "No such file"},
                     [] { TemporaryFolder("x", "/no/such/parent"); });
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesWhatItHolds) {
  int read_end = -1;
  int write_end = -1;
  {
    Pipe pipe = make_pipe();
    read_end = pipe.read_end.get();
    write_end = pipe.write_end.get();
    EXPECT_NE(::fcntl(read_end, F_GETFD) & FD_CLOEXEC, 0);
    pipe.write_end.reset();
    EXPECT_FALSE(is_open(write_end));
    EXPECT_TRUE(is_open(read_end));
  }
  EXPECT_FALSE(is_open(read_end));
}

TEST(UniqueFd, MovesAndReleases) {
  Pipe pipe = make_pipe();
  const int fd = pipe.read_end.get();
  UniqueFd other = std::move(pipe.read_end);
  EXPECT_FALSE(pipe.read_end);
  EXPECT_EQ(other.get(), fd);
  other = std::move(pipe.write_end);
  EXPECT_FALSE(is_open(fd));
  const int released = other.release();
  EXPECT_TRUE(is_open(released));
  ::close(released);
}

}  // namespace
}  // namespace lockstep
