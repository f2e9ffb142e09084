/* Assertions.
 *
 * TMESH_ASSERT guards our own invariants (a wrong state, a broken rule of this
 * code base) and stays in release builds: going on with a broken invariant in a
 * network program is worse than ending it. TMESH_DCHECK is for checks that cost
 * per byte or O(n); it exists in debug and fuzz builds only. Neither is ever used
 * for what a peer, a network, a user, a file or a database can cause: those are
 * statuses (status.h).
 */
#ifndef TMESH_BASE_CHECK_H
#define TMESH_BASE_CHECK_H

#ifdef __cplusplus
extern "C" {
#endif

/* Prints "file:line: assertion failed: text" to stderr and aborts. */
#if defined(__GNUC__)
__attribute__((noreturn, cold))
#endif
void tmesh_assert_fail(const char* expression, const char* file, int line);

#define TMESH_ASSERT(expr) ((expr) ? (void)0 : tmesh_assert_fail(#expr, __FILE__, __LINE__))

#if defined(TMESH_DEBUG_CHECKS)
#define TMESH_DCHECK(expr) TMESH_ASSERT(expr)
#else
#define TMESH_DCHECK(expr) ((void)sizeof(!(expr)))
#endif

#ifdef __cplusplus
}
#endif

#endif
