#include "cpp/base/out_of_memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <new>
#include <thread>
#include <vector>

#include "cpp/base/exit_code.hpp"

namespace tmesh {
namespace {

// The sanitizers bring an operator new of their own, which knows no handler.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_WITH_FOREIGN_ALLOCATOR() GTEST_SKIP() << "operator new is the sanitizer's"
#else
#define SKIP_WITH_FOREIGN_ALLOCATOR() static_cast<void>(0)
#endif

void limit_memory() {
  const rlimit limit{.rlim_cur = 1U << 28, .rlim_max = 1U << 28};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

// The compiler may leave out an allocation nobody looks at.
void* volatile last_block = nullptr;

void use_up_memory() {
  for (;;) last_block = ::operator new(65'536);
}

TEST(OutOfMemory, EndsTheProcessWithStatusOneAndOneLine) {
  SKIP_WITH_FOREIGN_ALLOCATOR();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        exit_when_out_of_memory();
        limit_memory();
        use_up_memory();
      },
      testing::ExitedWithCode(kExitFailure), "^out of memory\n$");
}

TEST(OutOfMemory, ThreadsThatFailTogetherWriteOneLine) {
  SKIP_WITH_FOREIGN_ALLOCATOR();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        exit_when_out_of_memory();
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; i++) threads.emplace_back([] { use_up_memory(); });
        limit_memory();
      },
      testing::ExitedWithCode(kExitFailure), "^out of memory\n$");
}

}  // namespace
}  // namespace tmesh
