// The library's own tests, without a framework: every method with [Test] is one.
using System;
using System.Linq;
using System.Reflection;
using System.Threading.Tasks;

[AttributeUsage(AttributeTargets.Method)]
internal sealed class TestAttribute : Attribute { }

internal static class Program
{
    private static async Task<int> Main(string[] args)
    {
        int passed = 0, failed = 0;
        var tests = Assembly.GetExecutingAssembly().GetTypes().SelectMany(t => t.GetMethods(BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic))
            .Where(m => m.GetCustomAttribute<TestAttribute>() != null && (args.Length == 0 || args.Any((m.DeclaringType!.Name + "." + m.Name).Contains)));
        foreach (var test in tests)
        {
            try
            {
                var made = (Task)test.Invoke(null, null)!;
                if (await Task.WhenAny(made, Task.Delay(TimeSpan.FromSeconds(60))) != made)
                    throw new TimeoutException("The test takes too long.");
                await made;
                passed++;
            }
            catch (Exception e)
            {
                failed++;
                Console.WriteLine("FAILED " + test.DeclaringType!.Name + "." + test.Name + ": " + e);
            }
        }
        Console.WriteLine(passed + " passed, " + failed + " failed");
        return failed == 0 && passed > 0 ? 0 : 1;
    }
}

internal static class Check
{
    public static void That(bool condition, string what)
    {
        if (!condition)
            throw new InvalidOperationException(what);
    }

    public static void Equal<T>(T expected, T found, string what = "value") =>
        That(Equals(expected, found), what + ": " + found + " is not " + expected);

    public static async Task<T> ThrowsAsync<T>(Func<Task> act) where T : Exception
    {
        try
        {
            await act();
        }
        catch (T e)
        {
            return e;
        }
        throw new InvalidOperationException("No " + typeof(T).Name + " was thrown.");
    }
}
