using System.Reflection;
using System.Runtime.CompilerServices;
using DataFlow.Client;

[assembly: AssemblyVersion(DataFlowClient.Version)]
[assembly: InternalsVisibleTo("DataFlow.Client.Tests")]
